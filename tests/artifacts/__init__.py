"""Tests of what `gpuctl export` renders."""
