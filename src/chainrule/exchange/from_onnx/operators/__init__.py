"""ONNX's operators, each one small function on traced arrays, in tables by kind."""
