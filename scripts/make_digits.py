"""Makes src/chainrule/data/digits.npz from scikit-learn's copy of the UCI digits.

    python scripts/make_digits.py PATH/TO/sklearn/datasets/data/digits.csv.gz

Needs NumPy alone; the csv.gz lies in every scikit-learn wheel (`pip download --no-deps
scikit-learn`, then unzip).  The same NumPy and zlib give the same bytes: `np.savez_compressed`
dates the entries of the archive 1980-01-01.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent.parent / "src" / "chainrule" / "data" / "digits.npz"


def main(source: Path) -> None:
    """Reads 65 columns a row (64 pixels of 0..16 and a label), writes images and labels."""
    table = np.loadtxt(source, delimiter=",")
    images = table[:, :64].astype(np.uint8).reshape(-1, 8, 8)
    labels = table[:, 64].astype(np.uint8)
    if not np.array_equal(np.column_stack([images.reshape(-1, 64), labels]), table):
        raise SystemExit(f"{source}: numbers that are not integers of 0..255")
    np.savez_compressed(TARGET, images=images, labels=labels, allow_pickle=False)
    content = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    print(f"{TARGET}: {TARGET.stat().st_size} bytes, {len(images)} images, content {content}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
