"""The native executor: a schedule compiled by LLVM into one function."""

from chainrule.execute.native.runtime import forks as forks
