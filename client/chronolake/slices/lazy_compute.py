"""PyArrow's functions, imported at the first call: a read of base files needs none of them.

Their import takes a tenth of the time of a short command.
"""

from __future__ import annotations

import importlib
from typing import Any, Final


class _Compute:
    def __getattr__(self, name: str) -> Any:
        function = getattr(importlib.import_module("pyarrow.compute"), name)
        setattr(self, name, function)
        return function


pc: Final[Any] = _Compute()
"""The module ``pyarrow.compute``."""
