"""The context in which tests ask the core."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.domain.context import Context

TESTER: Final = Context("tester", "request")
