"""Data: packaged data sets, readers of files, and minibatches of arrays."""

from chainrule.data.csv_table import read_csv
from chainrule.data.digits import Digits, digits, train_test_split
from chainrule.data.fashion_mnist import FashionMNIST, fashion_mnist
from chainrule.data.idx import read_idx
from chainrule.data.minibatches import Minibatches, minibatches
from chainrule.data.npy import read_npy
from chainrule.data.npz import read_npz
from chainrule.data.parquet import read_parquet
from chainrule.data.reading import read

__all__ = [
    "Digits",
    "FashionMNIST",
    "Minibatches",
    "digits",
    "fashion_mnist",
    "minibatches",
    "read",
    "read_csv",
    "read_idx",
    "read_npy",
    "read_npz",
    "read_parquet",
    "train_test_split",
]
