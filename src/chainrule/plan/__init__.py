"""Order and storage: which kernels compute a graph, when, and where every value lies."""
