"""LLVM: from text, or from functions on integers, to machine code that can be called."""
