"""The executor `xla`: a graph becomes one program of JAX, for the CPU, GPUs and TPUs."""
