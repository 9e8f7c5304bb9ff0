"""Bodies of the REST API for outcomes: what became of a request."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """What became of a request, kept under its idempotency key as long as the log.

    ``status`` and ``answer`` are what the request was answered: of a refusal (400 or more) the problem
    document; null where there was no body. ``table`` is the table that was meant, null when there was none.
    ``version`` is that of its log (for a namespace, the catalog's) once the request was decided.
    """

    request_id: str
    status: int
    answer: dict[str, Any] | None
    table: str | None
    version: int | None
    recorded_at: datetime | None
