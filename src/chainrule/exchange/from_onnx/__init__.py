"""Reads ONNX files as models: their operators become calls of NumPy on traced arrays."""
