"""Layers, activations and losses of neural networks that `import chainrule` does not load."""
