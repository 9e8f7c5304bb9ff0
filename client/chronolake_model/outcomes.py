"""Bodies of the REST API for outcomes: what became of a request."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a request, kept under its idempotency key as long as the log exists.

    ``status`` and ``answer`` are the answer to the request. For a refusal (400 or more), ``answer`` is the
    problem document; it is null if there was no body. ``table`` is the named table, or null. ``version`` is the
    version of its log (for a namespace, of the catalog's) after the request was decided.
    """

    request_id: str
    status: int
    answer: dict[str, Any] | None
    table: str | None
    version: int | None
    recorded_at: datetime | None
