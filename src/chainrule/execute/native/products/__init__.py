"""Matrix products in LLVM's text, and BLAS."""
