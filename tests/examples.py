"""How many examples the property tests try."""

from __future__ import annotations

import os
from typing import Final

ALL: Final = os.environ.get("CHRONOLAKE_EXAMPLES") == "all"
"""Whether this is ``make test-long``."""


def examples(count: int) -> int:
    """The number of examples in ``make test-long``, and a quarter of them in ``make test``."""
    return count if ALL else max(1, count // 4)
