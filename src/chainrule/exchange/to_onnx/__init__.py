"""Writes graphs as ONNX models, kind of kernel by kind of kernel."""
