"""The native executor: a schedule compiled by LLVM into one function."""

from chainrule.machine_code import forks as forks
