"""Matrix products in LLVM's text: calls of a BLAS routine in loops, shared between threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import AT_LEVEL_0, Code, Module, Operand, constant
from chainrule.execute.native.products.narrow_reads import load_number, memory_types
from chainrule.plan.products.contraction import Gemm, Loop
from chainrule.plan.products.tiles import Narrow

GRAIN = 16  # rows or columns, a vector of AVX-512: shares of a matrix begin at multiples of it

TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
LETTERS = {"float": "s", "double": "d"}
SMALLEST = {"float": 2.0**-149, "double": 2.0**-1074}

Matrices = Sequence[Operand]  # where A, B and C begin
Multiply = Callable[[Matrices, Operand, Operand], None]  # with alpha and beta

ZERO, ONE = constant(0, "i64"), constant(1, "i64")


def supports(dtype: np.dtype) -> bool:
    """Whether BLAS has products of this dtype."""
    return np.dtype(dtype) in TYPES


def routine_name(gemm: Gemm, dtype: np.dtype) -> str:
    """The BLAS routine whose address the function is to be given: `sgemm`, `dgemv`, ...

    "" where it calls none (the address may be null).
    """
    if gemm.is_empty or gemm.routine == "inline":
        return ""
    return LETTERS[TYPES[np.dtype(dtype)]] + gemm.routine


def split_axis(gemm: Gemm, parts: int) -> Literal["loops", "rows", "columns"]:
    """What `parts` threads share: whole rounds of the loops, or blocks of C's rows or columns.

    Loops where that is even enough, else the longer axis of C: a 256 x 1024 x 1024 product takes
    two threads 1,200 µs by BLAS' rows (1,024), 1,320 by columns, and one thread 2,330;
    1024 x 128 x 512 takes 298, 292 (1,024 columns) and 570.  OpenBLAS 0.3.30 with AVX-512, float32.
    Columns of a square: they are rows of an array in C order, which threads then share in the loops
    that follow.  In a deep MLP (1,024 wide, AVX2, Zen 4), weights' gradients take 0.97 of the time
    so, and 0.89 where threads share no cache; a 256 x 784 x 256 product alone takes 1.07 times.
    """
    lengths = {
        "loops": prod(loop.size for loop in gemm.loops if not loop.accumulates),
        "rows": gemm.m,
        "columns": gemm.n,
    }

    def slowest(axis: str) -> float:
        """The part of the work in the largest share."""
        grain = 1 if axis == "loops" else GRAIN
        blocks = -(-lengths[axis] // grain)
        return min(-(-blocks // parts) * grain / max(lengths[axis], 1), 1.0)

    by_length: tuple[Literal["rows", "columns"], ...] = ("rows", "columns")
    preferred = ("loops", *(by_length if gemm.m > gemm.n else by_length[::-1]))
    enough = 1.15 * min(map(slowest, preferred))
    return next(axis for axis in preferred if slowest(axis) <= enough)


def emit_product(
    module: Module, name: str, gemm: Gemm, dtype: np.dtype, parts: int, narrow: Narrow = ""
) -> None:
    """`void @name(ptr x, ptr y, ptr out, T alpha, T beta, ptr routine, i64 part, i64 parts)`.

    out = alpha x y + beta out, where beta = 0 does not read out, and alpha = 0 leaves NaN where
    the product is not finite, as NumPy's 0 * (x @ y) does.  `routine` is the address of
    `routine_name`, Fortran's with 32-bit integers; it must not use threads of its own.  The call
    does share `part` of 0 ... `parts` - 1; all shares together are the product, and the same
    split gives the same bits.  With `parts` = 1 here the call does all, whatever it is given.
    `narrow` are those of A and B that are bfloat16, where no routine is called.
    """
    if not supports(dtype):
        raise TypeError(f"no BLAS routine multiplies matrices of {np.dtype(dtype)}")
    emitter = _Product(Code(module), gemm, TYPES[np.dtype(dtype)], narrow)
    if not gemm.is_empty:
        emitter.all_shares() if parts == 1 else emitter.one_share(split_axis(gemm, parts))
    emitter.code.do("ret void")
    is_call = gemm.routine != "inline"
    attributes = f"nounwind {AT_LEVEL_0}" if is_call else "nounwind"
    emitter.code.function(name, emitter.parameters, attributes=attributes)


@dataclass(frozen=True)
class _Share:
    """A block of every C: where its rows and columns begin, and how many there are."""

    first_row: Operand
    rows: Operand
    first_column: Operand
    columns: Operand


class _Product:
    """What the methods below write to and about."""

    def __init__(self, code: Code, gemm: Gemm, type_: str, narrow: Narrow) -> None:
        self.code, self.gemm, self.type = code, gemm, type_
        self.types = memory_types(narrow, type_)
        self.x, self.y, self.out = (Operand(f"%{name}", "ptr") for name in ("x", "y", "out"))
        self.alpha, self.beta = Operand("%alpha", type_), Operand("%beta", type_)
        self.routine = Operand("%routine", "ptr")
        self.part, self.parts = Operand("%part", "i64"), Operand("%parts", "i64")
        arrays = self.x, self.y, self.out, self.alpha, self.beta
        self.parameters = (*arrays, self.routine, self.part, self.parts)
        self.one, self.zero = constant(1.0, type_), constant(0.0, type_)
        batch = [loop for loop in gemm.loops if not loop.accumulates]
        self.batch, self.inner = batch, [loop for loop in gemm.loops if loop.accumulates]

    def all_shares(self) -> None:
        """The whole product."""
        gemm = self.gemm
        whole = _Share(ZERO, constant(gemm.m, "i64"), ZERO, constant(gemm.n, "i64"))
        self.rounds(whole, ZERO, constant(prod(loop.size for loop in self.batch), "i64"))

    def one_share(self, axis: Literal["loops", "rows", "columns"]) -> None:
        """The part of the product that is this call's."""
        gemm, rounds = self.gemm, prod(loop.size for loop in self.batch)
        length = {"loops": rounds, "rows": gemm.m, "columns": gemm.n}[axis]
        first, after = self.bounds(length, 1 if axis == "loops" else GRAIN)
        count = self.code.binary("sub", after, first)
        rows, columns = constant(gemm.m, "i64"), constant(gemm.n, "i64")
        if axis == "loops":
            self.rounds(_Share(ZERO, rows, ZERO, columns), first, after)
            return
        share = (first, count, ZERO, columns) if axis == "rows" else (ZERO, rows, first, count)
        self.rounds(_Share(*share), ZERO, constant(rounds, "i64"))

    def bounds(self, length: int, grain: int) -> tuple[Operand, Operand]:
        """The first index of this part, and the first of the next: multiples of the grain."""
        code = self.code
        blocks = constant(-(-length // grain), "i64")

        def begin(part: Operand) -> Operand:
            block = code.binary("udiv", code.binary("mul", part, blocks), self.parts)
            index = code.binary("mul", block, constant(grain, "i64"))
            return code.call("llvm.umin.i64", "i64", index, constant(length, "i64"))

        return begin(self.part), begin(code.binary("add", self.part, ONE))

    def rounds(self, share: _Share, first: Operand, after: Operand) -> None:
        """The rounds first ... after - 1 of the batch loops, flattened."""
        gemm, code = self.gemm, self.code
        a, b = (self.x, self.y) if gemm.a_is_x else (self.y, self.x)
        of_a, of_b, _ = self.types
        a = moved(code, a, share.first_row, gemm.lda if gemm.transa else 1, of_a)
        b = moved(code, b, share.first_column, 1 if gemm.transb else gemm.ldb, of_b)
        c = self.moved(self.out, share.first_row, 1)
        c = self.moved(c, share.first_column, gemm.ldc)
        call = {"gemm": self.gemm_call, "gemv": self.gemv_call, "inline": self.inline}
        multiply = call[gemm.routine](share)

        def one_pass(alpha: Operand, beta: Operand) -> None:
            def batched(index: Operand) -> None:
                where = self.offset((a, b, c), self.batch, index)

                def summed(inner: Operand) -> None:
                    scale = beta
                    if self.inner:
                        scale = code.select(code.compare("icmp eq", inner, ZERO), beta, self.one)
                    multiply(self.offset(where, self.inner, inner), alpha, scale)

                self.each(ZERO, constant(prod(loop.size for loop in self.inner), "i64"), summed)

            self.each(first, after, batched)

        if gemm.routine == "inline":
            one_pass(self.alpha, self.beta)
        else:
            self.passes(one_pass)

    def passes(self, one_pass: Callable[[Operand, Operand], None]) -> None:
        """One pass; where alpha is 0, two with the smallest number t > 0 instead.

        With alpha = 0 BLAS does not look at the product, and NaN and infinity would vanish.
        beta C + t AB - t AB is beta C again (t AB is far below the last digit, and both
        roundings of it are equal where C is 0), but NaN where AB is not finite.
        """
        code = self.code
        is_zero = code.compare("fcmp oeq", self.alpha, self.zero)
        count = code.select(is_zero, constant(2, "i64"), ONE)
        scale = code.select(is_zero, constant(SMALLEST[self.type], self.type), self.alpha)

        def body(index: Operand, _: Sequence[Operand]) -> list[Operand]:
            is_first = code.compare("icmp eq", index, ZERO)
            alpha = code.select(is_first, scale, code.negative(scale))
            one_pass(alpha, code.select(is_first, self.beta, self.one))
            return []

        code.loop(ZERO, count, 1, [], body)

    def each(self, first: Operand, after: Operand, body: Callable[[Operand], None]) -> None:
        """`body` for every index from `first` on; no loop around one round."""
        if (first, after) == (ZERO, ONE):
            body(ZERO)
            return

        def one(index: Operand, _: Sequence[Operand]) -> list[Operand]:
            body(index)
            return []

        self.code.loop(first, after, 1, [], one)

    def moved(self, base: Operand, index: Operand, stride: int) -> Operand:
        """base + index * stride elements."""
        return moved(self.code, base, index, stride, self.type)

    def offset(self, pointers: Matrices, loops: Sequence[Loop], index: Operand) -> Matrices:
        """Where A, B and C begin in this round of the loops, of which the last is the fastest."""
        return offset(self.code, pointers, loops, index, self.types)

    def gemm_call(self, share: _Share) -> Multiply:
        """What calls gemm: C = alpha op(A) op(B) + beta C.  Its arguments are put down here."""
        gemm, slot = self.gemm, self.slot
        letters = slot(self.letter(gemm.transa)), slot(self.letter(gemm.transb))
        sizes = slot(share.rows), slot(share.columns), slot(constant(gemm.k, "i64"))
        lda, ldb, ldc = (slot(constant(one, "i64")) for one in (gemm.lda, gemm.ldb, gemm.ldc))
        alphas, betas = slot(self.zero), slot(self.zero)

        def multiply(where: Matrices, alpha: Operand, beta: Operand) -> None:
            a, b, c = where
            self.code.store(alpha, alphas)
            self.code.store(beta, betas)
            self.call(*letters, *sizes, alphas, a, lda, b, ldb, betas, c, ldc)

        return multiply

    def gemv_call(self, share: _Share) -> Multiply:
        """What calls gemv: y = alpha op(M) v + beta y, where M is A, or B transposed."""
        gemm, slot = self.gemm, self.slot
        if gemm.n == 1:
            transposed, leading, length = gemm.transa, gemm.lda, share.rows
            steps = gemm.ldb if gemm.transb else 1, 1
        else:
            transposed, leading, length = not gemm.transb, gemm.ldb, share.columns
            steps = 1 if gemm.transa else gemm.lda, gemm.ldc
        letter = slot(self.letter(transposed))
        sizes = length, constant(gemm.k, "i64")
        rows, columns = (slot(one) for one in (sizes[::-1] if transposed else sizes))
        lda, incx, incy = (slot(constant(one, "i64")) for one in (leading, *steps))
        alphas, betas = slot(self.zero), slot(self.zero)

        def multiply(where: Matrices, alpha: Operand, beta: Operand) -> None:
            a, b, c = where
            matrix, vector = (a, b) if gemm.n == 1 else (b, a)
            self.code.store(alpha, alphas)
            self.code.store(beta, betas)
            self.call(letter, rows, columns, alphas, matrix, lda, vector, incx, betas, c, incy)

        return multiply

    def inline(self, share: _Share) -> Multiply:
        """What multiplies small matrices without a call, one element after another."""
        gemm, code = self.gemm, self.code
        down_a, along_a = (gemm.lda, 1) if gemm.transa else (1, gemm.lda)
        down_b, along_b = (gemm.ldb, 1) if gemm.transb else (1, gemm.ldb)
        of_a, of_b, _ = self.types

        def multiply(where: Matrices, alpha: Operand, beta: Operand) -> None:
            a, b, c = where
            forgets = code.compare("fcmp oeq", beta, self.zero)

            def element(row: Operand, column: Operand) -> None:
                left = moved(code, a, row, down_a, of_a)
                right = moved(code, b, column, along_b, of_b)

                def term(index: Operand, sums: list[Operand]) -> list[Operand]:
                    one = load_number(code, moved(code, left, index, along_a, of_a), of_a)
                    other = load_number(code, moved(code, right, index, down_b, of_b), of_b)
                    return [code.fma(one, other, sums[0])]

                if gemm.k == 1:
                    (total,) = term(ZERO, [self.zero])
                else:
                    (total,) = code.loop(ZERO, constant(gemm.k, "i64"), 1, [self.zero], term)
                place = self.moved(self.moved(c, row, 1), column, gemm.ldc)
                before = code.binary("fmul", beta, code.load(place, self.type))
                before = code.select(forgets, self.zero, before)
                code.store(code.fma(alpha, total, before), place)

            self.each(
                ZERO,
                share.columns,
                lambda column: self.each(ZERO, share.rows, lambda row: element(row, column)),
            )

        return multiply

    def letter(self, transposed: bool) -> Operand:
        """N or T, as a byte."""
        return constant(ord("T" if transposed else "N"), "i8")

    def slot(self, value: Operand) -> Operand:
        """The address of a value, as Fortran's arguments are passed; integers become 32 bits.

        Only for use before the loops: what a loop allocates stays until the function returns.
        """
        if value.type == "i64":
            narrow = Operand(value.text, "i32")
            value = self.code.convert("trunc", value, "i32") if value.text[0] == "%" else narrow
        pointer = self.code.emit(f"alloca {value.type}", "ptr")
        self.code.store(value, pointer)
        return pointer

    def call(self, *pointers: Operand) -> None:
        """Call the routine."""
        arguments = ", ".join(f"ptr {one.text}" for one in pointers)
        self.code.do(f"call void {self.routine.text}({arguments})")


def moved(code: Code, base: Operand, index: Operand, stride: int, type_: str) -> Operand:
    """base + index * stride elements."""
    if ZERO in (index, constant(stride, "i64")):
        return base
    if index.text[0] != "%":
        return code.address(base, constant(int(index.text) * stride, "i64"), type_)
    if stride != 1:
        index = code.binary("mul", index, constant(stride, "i64"))
    return code.address(base, index, type_)


def offset(
    code: Code, pointers: Matrices, loops: Sequence[Loop], index: Operand, types: Sequence[str]
) -> list[Operand]:
    """Where A, B and C, of elements of these types, begin in this round of the loops, of which the
    last is the fastest."""
    found = list(pointers)
    for place, loop in reversed(list(enumerate(loops))):
        digit, size = index, constant(loop.size, "i64")
        if place:
            digit = code.binary("urem", index, size)
            index = code.binary("udiv", index, size)
        strides = loop.a_stride, loop.b_stride, loop.c_stride
        rows = zip(found, strides, types, strict=True)
        found = [moved(code, one, digit, by, type_) for one, by, type_ in rows]
    return found
