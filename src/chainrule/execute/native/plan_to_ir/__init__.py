"""The instructions of a plan as LLVM's text."""
