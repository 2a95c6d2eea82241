"""Real data that ships with the package, and how it is split."""

from chainrule.data.digits import Digits, digits, train_test_split

__all__ = ["Digits", "digits", "train_test_split"]
