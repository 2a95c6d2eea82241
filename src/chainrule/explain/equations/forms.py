"""Lists the writers of the forms, whose notation depends on shapes or operands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chainrule.explain.equations.elements import ELEMENTS
from chainrule.explain.equations.places import PLACES
from chainrule.explain.equations.products import PRODUCTS
from chainrule.explain.equations.setting import Setting
from chainrule.primitives.notation import Form

FORMS: Mapping[Form, Setting] = MappingProxyType({**ELEMENTS, **PRODUCTS, **PLACES})
