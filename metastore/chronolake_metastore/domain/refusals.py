"""Refusals: the row that the log keeps for a refused command, beside its answer.

Auditors query them years later, so their size is bounded for every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

DETAIL_CHARS_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 256
ENTRIES_MAX: Final = 10
"""Entries of a list that are kept, such as the file groups of a conflict."""
CONTEXT_BYTES_MAX: Final = 8_192


def bounded_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def bounded_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """The context with long texts and lists cut, and without lists at all when that is not enough."""
    kept = {name: _bounded(value) for name, value in context.items()}
    if len(msgspec.json.encode(kept)) <= CONTEXT_BYTES_MAX:
        return kept
    return {name: value for name, value in kept.items() if not isinstance(value, list | dict)}


def _bounded(value: Any) -> Any:
    match value:
        case str():
            return bounded_text(value)
        case list():
            return [_bounded(entry) for entry in value[:ENTRIES_MAX]]
        case dict():
            return {name: _bounded(entry) for name, entry in value.items()}
        case _:
            return value
