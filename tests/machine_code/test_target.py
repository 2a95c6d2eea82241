"""Text becomes code that runs, for this machine with fewer features and for another one."""

import ctypes
import gc
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from executors import needs_native

from chainrule.errors import InputError
from chainrule.machine_code import target as module
from chainrule.machine_code.object_file import ObjectError
from chainrule.machine_code.target import (
    assembly,
    compile_object,
    cross_target,
    host_target,
    load_objects,
    native_refusal,
)

pytestmark = needs_native

ADD = """
define i64 @add(i64 %x, i64 %y) {
  %sum = add i64 %x, %y
  ret i64 %sum
}
"""
DISTANT = """
declare float @expf(float)
declare i64 @given(i64)
define float @exponential(float %x) {
  %y = call float @expf(float %x)
  ret float %y
}
define i64 @ask(i64 %x) {
  %y = call i64 @given(i64 %x)
  ret i64 %y
}
"""
LONG_TO_LONG = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
ADDITION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def vectors(count, attributes):
    """y = x * x + x in vectors of `count` floats; the constant needs data beside the code."""
    kind = f"<{count} x float>"
    return f"""
declare {kind} @llvm.fma.v{count}f32({kind}, {kind}, {kind})
define void @polynomial(ptr %y, ptr %x) {attributes} {{
  %a = load {kind}, ptr %x, align 4
  %b = call {kind} @llvm.fma.v{count}f32({kind} %a, {kind} %a, {kind} splat (float 1.25))
  store {kind} %b, ptr %y, align 4
  ret void
}}
"""


def test_the_sum_of_two_numbers_is_computed_by_code_from_text():
    library = load_objects([compile_object(ADD, host_target())], {})
    assert ADDITION(library.address("add"))(40, 2) == 42


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
@pytest.mark.parametrize("without", [(), ("avx512",), ("avx2",), ("avx",)])
def test_vectors_are_computed_with_and_without_the_features(without, opt):
    target = host_target(without)
    count = target.vector_nbytes // 4
    text = vectors(count, target.function_attributes)
    library = load_objects([compile_object(text, target, opt)], {})
    x = (ctypes.c_float * count)(*range(count))
    y = (ctypes.c_float * count)()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("polynomial"))
    call(ctypes.addressof(y), ctypes.addressof(x))
    assert list(y) == [value * value + 1.25 for value in range(count)]


def test_a_target_without_a_feature_has_narrower_registers_and_none_of_its_instructions():
    text = vectors(16, "nounwind")
    # AVX without AVX2 has registers of 32 bytes, but too few instructions for them
    for without, most, registers in [
        ((), 64, {"xmm", "ymm", "zmm"}),
        (("avx512",), 32, {"xmm", "ymm"}),
        (("avx2",), 16, {"xmm", "ymm"}),
        (("avx",), 16, {"xmm"}),
    ]:
        target = host_target(without)
        assert target.vector_nbytes <= most
        assert set(re.findall(r"[xyz]mm(?=\d)", assembly(text, target))) <= registers
    assert "vfmadd" not in assembly(text, host_target(("avx2",)))


@pytest.mark.parametrize(
    ("hidden", "without", "most"),
    [
        ("avx512", ("avx512",), 32),
        ("avx2", ("avx2",), 16),
        (" avx512, avx2", ("avx512", "avx2"), 16),
        ("", (), 64),
    ],
)
def test_the_environment_hides_features_of_this_machine(hidden, without, most, monkeypatch):
    monkeypatch.delenv("CHAINRULE_WITHOUT", raising=False)
    asked = host_target(without)
    assert asked.vector_nbytes <= most
    monkeypatch.setenv("CHAINRULE_WITHOUT", hidden)
    assert host_target() == asked


def test_a_feature_that_no_processor_has_is_explained(monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", "avx512,axv2")
    with pytest.raises(InputError) as caught:
        host_target()
    assert "CHAINRULE_WITHOUT has 'axv2', which is no feature of" in str(caught.value)
    assert "one or several of avx512, avx2, avx" in str(caught.value)


@pytest.mark.parametrize("cpu", ["skylake-avx512", "sapphirerapids", "znver5"])
def test_a_vector_of_64_bytes_is_one_register_also_on_processors_that_prefer_half(cpu):
    target = module.Target("x86_64-unknown-linux-gnu", cpu, "", 64)
    made = assembly(vectors(16, target.function_attributes), target)
    assert "zmm" in made
    assert "ymm" not in made


def test_code_for_aarch64_is_generated_but_not_loaded_elsewhere():
    target = cross_target("aarch64-linux-gnu")
    assert target.architecture == "aarch64"
    assert target.vector_nbytes == 16
    made = compile_object(vectors(4, target.function_attributes), target)
    assert made[18:20] == b"\xb7\x00"  # the number of the architecture in an ELF header
    assert "fmla" in assembly(vectors(4, target.function_attributes), target)
    if host_target().architecture != "aarch64":
        with pytest.raises(ObjectError, match="not an object file for x86_64"):
            load_objects([made], {})


def test_names_are_found_in_libm_and_in_what_is_given():
    given = LONG_TO_LONG(lambda x: 3 * x)
    address = ctypes.cast(given, ctypes.c_void_p).value or 0
    library = load_objects([compile_object(DISTANT, host_target())], {"given": address})
    assert LONG_TO_LONG(library.address("ask"))(14) == 42
    exponential = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.address("exponential"))
    assert exponential(1.0) == pytest.approx(2.718281828, rel=1e-6)


def test_objects_are_linked_with_each_other():
    one = compile_object("define i64 @given(i64 %x) {\n ret i64 7\n}", host_target())
    library = load_objects([one, compile_object(DISTANT, host_target())], {})
    assert LONG_TO_LONG(library.address("ask"))(0) == 7


def test_an_unknown_name_is_told():
    with pytest.raises(ObjectError, match=r"cannot be loaded: nothing is called given$"):
        load_objects([compile_object(DISTANT, host_target())], {})
    with pytest.raises(KeyError, match="subtract"):
        load_objects([compile_object(ADD, host_target())], {}).address("subtract")


def test_libraries_with_equal_names_live_side_by_side():
    texts = [f"define i64 @f(i64 %x) {{\n ret i64 {n}\n}}" for n in range(3)]
    libraries = [load_objects([compile_object(text, host_target())], {}) for text in texts]
    del libraries[1]
    gc.collect()
    assert [LONG_TO_LONG(one.address("f"))(0) for one in libraries] == [0, 2]


def test_code_that_is_not_referenced_is_freed_when_other_code_is_loaded():
    one = compile_object(ADD, host_target())
    load_objects([one], {})

    def mapped():
        return len(Path("/proc/self/maps").read_text().splitlines())

    before = mapped()
    kept = [load_objects([one], {}) for _ in range(50)]
    assert mapped() >= before + 50
    kept.clear()
    gc.collect()
    load_objects([one], {})
    assert mapped() < before + 25


@pytest.mark.slow
def test_objects_do_not_depend_on_where_or_when_they_are_made():
    here = compile_object(DISTANT, host_target())
    assert compile_object(DISTANT, host_target()) == here
    script = (
        "import sys;"
        "from chainrule.machine_code.target import compile_object, host_target;"
        "sys.stdout.buffer.write(compile_object(sys.argv[1], host_target()))"
    )
    done = subprocess.run([sys.executable, "-c", script, DISTANT], capture_output=True, check=True)
    assert done.stdout == here


def test_a_damaged_object_is_an_error_and_no_crash():
    whole = compile_object(DISTANT, host_target())
    for damaged in [b"", b"x", whole[:63], b"x" + whole[1:], b"\0" * len(whole)]:
        with pytest.raises(ObjectError, match="not an object file"):
            load_objects([damaged], {})
    for nbytes in range(64, len(whole)):
        with pytest.raises(ObjectError, match="cut off"):
            load_objects([whole[:nbytes]], {})


def test_a_section_outside_the_object_is_an_error():
    whole = compile_object(DISTANT, host_target())
    (table,), (count,) = struct.unpack_from("<Q", whole, 40), struct.unpack_from("<H", whole, 60)
    for at in range(1, count):
        damaged = bytearray(whole)
        struct.pack_into("<Q", damaged, table + 64 * at + 24, 1 << 40)  # where it begins
        with pytest.raises(ObjectError, match="cut off"):
            load_objects([bytes(damaged)], {})


def test_wrong_text_is_refused_with_its_line():
    with pytest.raises(AssertionError, match=r"use of undefined value '%nothing'\n .*i64 %nothing"):
        compile_object("define i64 @f() {\n  ret i64 %nothing\n}", host_target())
    invalid = "define i64 @f() {\n  br label %a\na:\n  %x = phi i64 [1, %a]\n  ret i64 0\n}"
    with pytest.raises(AssertionError, match=r"PHI node entries(.|\n)*%x = phi"):
        compile_object(invalid, host_target())


def test_a_platform_without_native_code_says_why(monkeypatch):
    assert native_refusal() is None
    with monkeypatch.context() as patch:
        patch.setattr(module.sys, "platform", "darwin")
        assert "on Linux only, and this is darwin" in str(native_refusal())
    with monkeypatch.context() as patch:
        patch.setattr(module.sys, "byteorder", "big")
        assert "little-endian" in str(native_refusal())
    with monkeypatch.context() as patch:
        patch.setattr(module.platform, "machine", lambda: "riscv64")
        assert "x86_64 and aarch64, and this processor is riscv64" in str(native_refusal())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "llvmlite.binding", None)
        assert "needs the package llvmlite" in str(native_refusal())
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.binding.llvm_version_info", (15, 0, 7))
        assert "needs llvmlite 0.45 or newer (LLVM 20), not LLVM 15.0.7" in str(native_refusal())
