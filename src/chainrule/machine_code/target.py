"""What machine code is generated for, and how LLVM's text becomes functions that can be called.

Text is compiled to an object file as bytes, which holds no address and may be kept on disk;
objects are loaded into this process by LLVM's linker for just-in-time code.  All of LLVM is called
from here, with `making` held: a fork waits for it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import math
import os
import platform
import struct
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.machine_code.forks import making
from chainrule.machine_code.object_file import MACHINES, ObjectError, names_in

OLDEST_LLVM = 20  # the first whose text knows `splat (float 1.0)`; it came with llvmlite 0.45

WITHOUT = "CHAINRULE_WITHOUT"
# What "without" means: these features go, and with them all that build on them.
FAMILIES = {"avx512": ("avx512f",), "avx2": ("avx2", "fma"), "avx": ("avx",)}


@dataclass(frozen=True)
class Target:
    """A machine, by LLVM's names; every field belongs into the key of a cache of code.

    `vector_nbytes` is the size of the widest register that kernels should use: vectors of this
    size in the text stay in one register.  `function_attributes` is put behind every `define`.
    """

    triple: str
    cpu: str
    features: str
    vector_nbytes: int

    @property
    def architecture(self) -> str:
        """`x86_64` or `aarch64`."""
        return self.triple.split("-", 1)[0]

    @property
    def named_nbytes(self) -> int:
        """The size of the registers whose instructions of x86-64 code may name: 64 of AVX-512 (its
        parts F, BW, DQ and VL), 32 of AVX2, 16 of SSE2; 0 on other processors."""
        return self.vector_nbytes if self.architecture == "x86_64" else 0

    @property
    def has_avx512(self) -> bool:
        """Whether code may name instructions of AVX-512."""
        return self.named_nbytes == 64

    @property
    def multiplies_pairs(self) -> bool:
        """Whether an instruction multiplies pairs of bfloat16 and adds them up in float32."""
        named = self.features.split(",")
        return self.has_avx512 and "+avx512bf16" in named and "-avx512bf16" not in named

    @property
    def blas_from(self) -> float:
        """Multiplications of one product, of more than which BLAS is faster than tiles.

        With 16 registers of 32 bytes, packing both matrices wins.  Two threads of a Zen 3, tiles
        over OpenBLAS 0.3.30: 256 x 1024 x 1024 takes 0.92 to 1.21 times as long, 512 x 784 x 2048
        1.07 to 1.57, 1000 x 1000 x 1000 1.09 to 1.39; 256 x 784 x 256 0.81 to 0.86 in float32.  On
        a Zen 4 held to AVX2 these and others take 0.94 to 1.05, and in a deep MLP 0.92 (0.90 where
        threads share no cache); on a Zen 5 in a deep MLP 0.96, in a wide one 0.97.
        """
        has_quick_tiles = self.named_nbytes != 32 or self.cpu in ("znver4", "znver5")
        return math.inf if has_quick_tiles else 1e8

    @property
    def fetches_by_itself(self) -> bool:
        """Whether loops over large arrays are slower where their code fetches ahead, too.

        On a Zen 4 they are, in its caches and beyond; an Intel Xeon is quicker with it
        (docs/decisions/0062).  On a Zen 5 a cross-entropy of 16 MB is, and others differ by as much
        from process to process.
        """
        return self.cpu == "znver4"

    @property
    def function_attributes(self) -> str:
        """Attributes for the `define` lines of the text.

        With them the passes of LLVM that choose a width do not prefer half a register, as they
        do on Intel's processors with AVX-512.  Explicit vectors are kept as they are either way
        (measured: the assembly for skylake-avx512 is the same), unless a function says
        "min-legal-vector-width", which generated text therefore must not.
        """
        return f'nounwind "prefer-vector-width"="{8 * self.vector_nbytes}"'


def native_refusal() -> str | None:
    """Why native code cannot be made here, in one sentence; None where it can."""
    if sys.platform != "linux":
        return f"native code is made on Linux only, and this is {sys.platform}"
    if sys.byteorder != "little" or struct.calcsize("P") != 8:
        return "native code is made for 64-bit little-endian processors only"
    if platform.machine() not in MACHINES:
        known = " and ".join(MACHINES)
        return f"native code is made for {known}, and this processor is {platform.machine()}"
    if not _has_scipy():
        return "native code needs the package scipy (its BLAS), which is not installed"
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        return f"native code needs the package llvmlite, which cannot be imported ({error})"
    if llvm.llvm_version_info[0] < OLDEST_LLVM:
        found = ".".join(map(str, llvm.llvm_version_info))
        return f"native code needs llvmlite 0.45 or newer (LLVM {OLDEST_LLVM}), not LLVM {found}"
    return None


@lru_cache(maxsize=1)
def _has_scipy() -> bool:
    return importlib.util.find_spec("scipy") is not None


def llvm_versions() -> str:
    """Which LLVM makes code here, for the key of a cache of code."""
    import llvmlite
    import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {llvm.llvm_version_info}"


def host_target(without: tuple[str, ...] = ()) -> Target:
    """This machine, less the features in `without` and in the variable CHAINRULE_WITHOUT.

    Both have names of LLVM's features, or of FAMILIES: "avx2" takes FMA and AVX-512 along.  In the
    variable commas are between them.  InputError where it has another name.
    """
    named = os.environ.get(WITHOUT, "").replace(" ", "").split(",")
    return _host_target(tuple(dict.fromkeys((*filter(None, named), *without))))


@lru_cache
def _host_target(without: tuple[str, ...]) -> Target:
    with making:
        llvm = _llvm()
        host = llvm.get_host_cpu_features()
        triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    for name in without:
        if name not in FAMILIES and name not in host:
            raise InputError(
                f"{WITHOUT} has {name!r}, which is no feature of processors like this one",
                hint=f"one or several of {', '.join(FAMILIES)} (or LLVM's own names of features)",
            )
    enabled = sorted(name for name, here in host.items() if here)
    absent = sorted(name for name, here in host.items() if not here)
    removed = [one for name in without for one in FAMILIES.get(name, (name,))]
    # LLVM reads from left to right, and a minus also clears what implies the feature: the
    # removals stand last, so that "+vaes" does not bring "avx2" back.
    signs = ("+", enabled), ("-", absent), ("-", removed)
    features = ",".join(sign + name for sign, names in signs for name in names)
    return Target(
        triple=triple,
        cpu=cpu,
        features=features,
        vector_nbytes=_vector_nbytes(set(enabled), removed),
    )


def _vector_nbytes(enabled: set[str], removed: Sequence[str]) -> int:
    """64 with all of AVX-512 that kernels use, 32 with AVX2 and FMA, else 16 (SSE2, NEON)."""
    narrow, wide = {"avx", "avx2", "fma"}, {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    if narrow & set(removed) or not {"avx2", "fma"} <= enabled:
        return 16
    if wide & set(removed) or not wide <= enabled:
        return 32
    return 64


@lru_cache
def cross_target(triple: str) -> Target:
    """A plain processor of another kind, such as "aarch64-linux-gnu": code to look at, not run."""
    with making:
        llvm = _llvm()
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return Target(triple=triple, cpu="generic", features="", vector_nbytes=16)


def compile_object(
    ir_text: str, target: Target, opt: int = 2, *, through_passes: bool = False
) -> bytes:
    """The object file for a module of LLVM's text; one module and target give the same bytes.

    In the text of plans, vectors, phis and hoisting are there already, so no pass over it is run,
    only the code generator.  Measured on 15 kernels (1,100 lines): reading 2 ms, verifying 0.5 ms,
    generating 10, 28, 29 and 29 ms at `opt` 0 to 3 with the same code from 1 on; LLVM's smallest
    pipeline of passes would add 32 ms.  `through_passes` is for text that was translated from
    Python: LLVM's passes of level 2.  The code is position-independent with a small code model.

    AssertionError for text that is wrong, with the line: that is an error of the generator.
    """
    with making:
        return object_of(ir_text, target, opt, through_passes=through_passes)


def object_of(
    ir_text: str, target: Target, opt: int = 2, worker: int = 0, *, through_passes: bool = False
) -> bytes:
    """See `compile_object`; for whoever holds `making`, or works for the one that does.

    Several threads do it at the same time if the numbers of the `worker` differ.
    """
    # Closed here, the module first: what holds this frame must not have Python close them later.
    with _llvm().create_context() as context:
        machine, layout = _machine(target, opt, worker)
        try:
            module = _llvm().parse_assembly(ir_text, context)
        except RuntimeError as error:
            raise _refused(error) from error
        with module:
            try:
                module.verify()
            except RuntimeError as error:
                raise _refused(error) from error
            module.triple = target.triple
            module.data_layout = layout
            if through_passes:
                _optimise(module, machine)
            return _emitted(module, machine)


def _emitted(module: Any, machine: Any) -> bytes:
    """The object file of a module.

    The binding holds a lock of its own in all that it calls; generating code, which takes longest,
    is called here without it, as each thread has a context and a machine of its own.
    """
    emit, binding = _emit(), _llvm().ffi
    if emit is None:
        return machine.emit_object(module)
    with binding.OutputString() as error:
        memory = emit(machine, module, 1, error)
        if not memory:
            raise AssertionError(f"LLVM made no code: {error}")
    try:
        begin, nbytes = (
            getattr(binding.lib, f"LLVMPY_GetBuffer{what}")(memory) for what in ("Start", "Size")
        )
        return ctypes.string_at(begin, nbytes)
    finally:
        binding.lib.LLVMPY_DisposeMemoryBuffer(memory)


@lru_cache
def _emit() -> Any:
    """LLVM's function that generates code, as its library has it; None where the binding has
    another one, or keeps it elsewhere."""
    try:
        known = _llvm().ffi.lib.LLVMPY_TargetMachineEmitToMemory
        found = ctypes.CDLL(_llvm().ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
        found.argtypes, found.restype = known.argtypes, known.restype
    except (AttributeError, OSError):
        return None
    return found


def _optimise(module: Any, machine: Any) -> None:
    """Run LLVM's passes of level 2, loops vectorised, and little inlined: the search that is
    translated compiles in half the time (0.19 s instead of 0.37), and runs as fast."""
    options = _llvm().create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.inlining_threshold = 20
    builder = _llvm().create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _refused(error: RuntimeError) -> AssertionError:
    return AssertionError(f"chainrule generated text that LLVM refuses: {error}")


def assembly(ir_text: str, target: Target, opt: int = 2) -> str:
    """The assembly of what `compile_object` makes, for tests and for curious people."""
    with making, _llvm().create_context() as context:
        machine, layout = _machine(target, opt)
        with _llvm().parse_assembly(ir_text, context) as module:
            module.triple = target.triple
            module.data_layout = layout
            return machine.emit_assembly(module)


_unused: deque[Any] = deque()  # LLVM's trackers of libraries that nobody references any more


class Library:
    """Loaded code: it stays in memory as long as this object is referenced, and until the next
    code is loaded.

    Nothing else keeps the library alive while one of its functions runs.  When the interpreter
    ends nothing is freed (the binding sees to that): threads may still be in the code.
    """

    def __init__(self, addresses: Mapping[str, int], tracker: Any) -> None:
        self._addresses = dict(addresses)
        # Any thread may drop the library at any time, and a fork cannot wait for all of them.
        weakref.finalize(self, _unused.append, tracker).atexit = False

    def address(self, name: str) -> int:
        """Where the function or variable of that name is; KeyError where there is none."""
        return self._addresses[name]


_numbers = itertools.count()


def load_objects(objects: Sequence[bytes], symbols: Mapping[str, int]) -> Library:
    """The objects linked together: `address(name)` of all that they define.

    Names that they do not define come from `symbols` (name -> address), or else from the
    process, where libc and libm are.  0.3 ms for an object of 16 kB, half of it for a new name.

    ObjectError where the bytes are no object file for this machine (its header and tables are
    checked against its length), and where a name is not found.  Damage inside the code or its
    relocations is not found here: who reads objects from a disk must compare a checksum (of the
    whole object) and the target, or else may crash.
    """
    names = {name: here for one in objects for name, here in sorted(names_in(one))}
    defined = [name for name, here in names.items() if here]
    with making:
        while _unused:
            _unused.pop().close()
        library = _llvm().JITLibraryBuilder()
        for one in objects:
            library.add_object_img(one)
        library.add_current_process()
        for name in defined:
            library.export_symbol(name)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        try:
            tracker = library.link(_linker(), f"chainrule-{next(_numbers)}")
        except RuntimeError as error:
            process = ctypes.CDLL(None)
            wanted = names.keys() - set(defined) - symbols.keys()
            missing = sorted(name for name in wanted if not hasattr(process, name))
            why = f"nothing is called {', '.join(missing)}" if missing else str(error)
            raise ObjectError(f"the code cannot be loaded: {why}") from error
    return Library({name: tracker[name] for name in defined}, tracker)


@lru_cache
def _llvm() -> Any:
    """LLVM's binding, with this machine's code generator; the import takes 40 to 60 ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache
def _machine(target: Target, opt: int, worker: int = 0) -> tuple[Any, str]:
    """LLVM's code generator for the target, and its layout of data; each worker has its own."""
    machine = (
        _llvm()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu, features=target.features, opt=opt, reloc="pic", codemodel="small"
        )
    )
    return machine, str(machine.target_data)


@lru_cache
def _linker() -> Any:
    """The linker of the process, made once and never freed: libraries live in it.

    JITLink puts an object's sections next to each other, as the small code model asks, and
    checks that they are in reach; LLVM's older linker does neither (and is no faster: 0.37 ms).
    """
    # Names come from the libraries that the process shows to all.  A Python that was linked
    # without libm shows it from here on.
    for name in ("libm.so.6", "libm.so"):
        try:
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue
    machine, _ = _machine(host_target(), 2)
    linker = _llvm().create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
    linker._owned = True  # the binding does not free what something else owns: here, the process
    return linker
