"""What `gpuctl export` renders: values in, the text of a file or of commands out."""
