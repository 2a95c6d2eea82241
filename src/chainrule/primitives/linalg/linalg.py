"""The primitives of linear algebra, which LAPACK computes."""

from chainrule.primitives.linalg.det import LINALG_DET
from chainrule.primitives.linalg.eigen import LINALG_EIGEN
from chainrule.primitives.linalg.factors import LINALG_FACTORS
from chainrule.primitives.linalg.solve import LINALG_SOLVE
from chainrule.primitives.linalg.svd import LINALG_SVD

LINALG = (*LINALG_SOLVE, *LINALG_EIGEN, *LINALG_SVD, *LINALG_FACTORS, *LINALG_DET)
