"""Hides from other libraries what CHAINRULE_WITHOUT hides from native code: call it before NumPy.

So `CHAINRULE_WITHOUT=avx512 python3 scripts/test.py` runs all tests as a processor with AVX2 does.
"""

import os
import subprocess
import sys

# By what is hidden: what each library calls the best that is left.
LEFT = {
    "avx512": {
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
    "avx2": {
        "OPENBLAS_CORETYPE": "Sandybridge",
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "AVX",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX",
    },
}
# NumPy warns where it is told to hide what it would not use, and versions have other names: ask.
NUMPY_USES = """
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(*(name for name in __cpu_dispatch__ if __cpu_features__[name]))
"""
OF_NUMPY = {"avx512": ("AVX512", "X86_V4"), "avx2": ("AVX512", "X86_V4", "AVX2", "FMA3", "X86_V3")}


def hide_features() -> None:
    """Set the variables of other libraries, where CHAINRULE_WITHOUT is set and they are not."""
    hidden = os.environ.get("CHAINRULE_WITHOUT")
    if hidden is None or "NPY_DISABLE_CPU_FEATURES" in os.environ:  # an xdist worker inherits them
        return
    if hidden not in LEFT:
        raise ValueError(f"tests run with CHAINRULE_WITHOUT={' or '.join(LEFT)}, not {hidden!r}")
    assert "numpy" not in sys.modules, "NumPy has chosen its loops already"
    asked = [sys.executable, "-c", NUMPY_USES]
    used = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    named = (name for name in used if name.startswith(OF_NUMPY[hidden]))
    os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join(named)
    for variable, value in LEFT[hidden].items():
        os.environ.setdefault(variable, value)
