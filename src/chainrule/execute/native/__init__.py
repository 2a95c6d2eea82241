"""The native executor: a schedule compiled by LLVM into one function, its products by BLAS."""

from chainrule.execute.native.runtime import forks as forks
