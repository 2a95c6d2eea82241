"""What is computed when, and in which bytes; no kernels, no executors."""
