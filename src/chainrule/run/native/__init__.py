"""The native executor: a schedule compiled by LLVM into one function, its products by BLAS."""

from chainrule.run.native import forks as forks  # before anything else here is imported
