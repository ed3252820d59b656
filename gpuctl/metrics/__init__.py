"""Raw samples in, clean readings per GPU and MIG instance out."""
