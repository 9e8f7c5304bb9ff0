"""How many examples the property tests try."""

from __future__ import annotations

import os

_SHARE = 1 if os.environ.get("CHRONOLAKE_EXAMPLES") == "all" else 4


def examples(count: int) -> int:
    """So many examples in ``make test-long``, and a quarter of them in ``make test``."""
    return max(1, count // _SHARE)
