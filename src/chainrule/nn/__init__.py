"""Layers, activations and losses of neural networks, in PyTorch's conventions."""
