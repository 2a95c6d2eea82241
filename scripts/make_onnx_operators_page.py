"""Writes docs/onnx-operators.md: which of ONNX's operators are read, and why others are not.

    python scripts/make_onnx_operators_page.py

It needs the package onnx.
"""

import importlib
from pathlib import Path
from typing import Any

from chainrule.exchange.from_onnx.functions import DEFINED
from chainrule.exchange.from_onnx.importing import NEWEST, OLDEST
from chainrule.exchange.from_onnx.table import TABLE

defs: Any = importlib.import_module("onnx.defs")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "onnx-operators.md"
HEAD = """\
<!-- Written by scripts/make_onnx_operators_page.py; a test keeps it current. -->
# Every ONNX operator

`cr.from_onnx` reads operator sets {oldest} to {newest}. Of the {count} operators of ONNX's own
domain {read} are read; of {others} operators in its other domains, {read_others}. Each is tested
with the cases that ONNX's own backend tests have for it, on both executors.

Arrays are of booleans, integers of 8 to 64 bits, float16, float32 and float64. Tensors of bfloat16,
float8, int4 and their like are read where a file casts or dequantises them. Text is not read.

Some operators are read in part:

* `Dropout` and `BatchNormalization` in training mode: the first is refused, as the file does not
  say the random numbers; the second uses the statistics of the batch.
* `Loop` whose results have shapes that depend on data: its number of iterations must be known.
* `Compress`, `NonZero`, `Unique`: of known arrays, as the shapes of their results depend on them.
* `Scan` of operator set 8, which has another form.
* Shapes, axes, lengths and the like must be known when the file is read: constants, sizes of
  inputs, or inputs that `values=` fixes.

## Not read

| operator | reason |
|---|---|
"""
RANDOM = "random numbers that the file does not say; `cr.random` has keys"
TEXT = "text is not read"
DATA = "the shape of its result depends on data"
TABLES = "a classifier or table of another kind of model, which has no gradient"
REASONS = {
    "Bernoulli": RANDOM,
    "BitCast": "the bits of floats as integers: no NumPy call on traced arrays",
    "CastMap": TABLES,
    "CategoryMapper": TEXT,
    "DeformConv": "not written yet",
    "DictVectorizer": TABLES,
    "FeatureVectorizer": TABLES,
    "FlexAttention": "a preview, whose attributes are graphs of a definition of its own",
    "Gradient": "`cr.backward` makes gradients",
    "ImageDecoder": "it decodes files of images",
    "Imputer": TABLES,
    "LabelEncoder": TABLES,
    "LinearClassifier": TABLES,
    "LinearRegressor": TABLES,
    "MaxRoiPool": "not written yet",
    "Multinomial": RANDOM,
    "NonMaxSuppression": DATA,
    "Normalizer": TABLES,
    "OneHotEncoder": TABLES,
    "RandomNormal": RANDOM,
    "RandomNormalLike": RANDOM,
    "RandomUniform": RANDOM,
    "RandomUniformLike": RANDOM,
    "RegexFullMatch": TEXT,
    "RoiAlign": "not written yet",
    "SVMClassifier": TABLES,
    "SVMRegressor": TABLES,
    "Scaler": TABLES,
    "StringConcat": TEXT,
    "StringNormalizer": TEXT,
    "StringSplit": TEXT,
    "TfIdfVectorizer": TEXT,
    "TreeEnsemble": TABLES,
    "ZipMap": TABLES,
}


def operators() -> set[tuple[str, str]]:
    """Every operator that is not deprecated, by domain and name."""
    return {(one.domain, one.name) for one in defs.get_all_schemas() if not one.deprecated}


def is_read(operator: tuple[str, str]) -> bool:
    return operator in TABLE or operator in DEFINED


def shown(operator: tuple[str, str]) -> str:
    domain, name = operator
    return f"{domain}.{name}" if domain else name


def page() -> str:
    found = sorted(operators())
    own = [one for one in found if not one[0]]
    others = [one for one in found if one[0]]
    lines = [
        HEAD.format(
            oldest=OLDEST,
            newest=NEWEST,
            count=len(own),
            read=sum(map(is_read, own)),
            others=len(others),
            read_others=sum(map(is_read, others)),
        )
    ]
    for one in found:
        if not is_read(one):
            lines.append(f"| `{shown(one)}` | {REASONS[one[1]]} |\n")
    lines.append("\n## Read\n\n")
    names = [f"`{shown(one)}`" for one in sorted({*found, *TABLE}) if is_read(one)]
    lines.append(", ".join(names) + ".\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
