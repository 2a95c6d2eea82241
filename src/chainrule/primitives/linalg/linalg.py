"""The primitives of linear algebra, which LAPACK computes."""

from chainrule.primitives.linalg.det import LINALG_DET
from chainrule.primitives.linalg.eigen import LINALG_EIGEN
from chainrule.primitives.linalg.exponential import LINALG_EXPONENTIAL
from chainrule.primitives.linalg.factors import LINALG_FACTORS
from chainrule.primitives.linalg.lu import LINALG_LU
from chainrule.primitives.linalg.solve import LINALG_SOLVE
from chainrule.primitives.linalg.svd import LINALG_SVD
from chainrule.primitives.linalg.triangular import LINALG_TRIANGULAR

LINALG = (
    *(*LINALG_SOLVE, *LINALG_TRIANGULAR, *LINALG_EIGEN, *LINALG_SVD, *LINALG_FACTORS),
    *(*LINALG_LU, *LINALG_DET, *LINALG_EXPONENTIAL),
)
