"""Models of PyTorch as graphs: `torch.export`'s operators, in NumPy."""
