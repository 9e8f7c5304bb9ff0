"""The values of the operation column of files, which mark rows that delete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import errors

DELETES: Final = ("d", "delete", "deleted")
_UPSERTS: Final = (
    *("c", "create", "created", "i", "insert", "inserted", "r", "read"),
    *("u", "update", "updated", "upsert", "upserted"),
)
PATTERN: Final = f" *(?i:{'|'.join((*DELETES, *_UPSERTS))})? *"
"""The values that name an operation, in any case, with or without blanks around them; "" is an upsert."""
_VALUE_CHARS_MAX = 200
_KNOWN = re.compile(PATTERN, re.ASCII)


def is_known(value: str) -> bool:
    """Whether ``value`` names an operation."""
    return _KNOWN.fullmatch(value) is not None


def first_unknown(values: pa.Array) -> int | None:
    """The index of the first value that names no operation; null is an upsert."""
    return next(iter(unknown(values)), None)


def unknown(values: pa.Array) -> list[int]:
    """The indices of the values that name no operation."""
    texts = values.cast(pa.string())
    names = [value for value in pc.unique(texts).to_pylist() if value is not None and not is_known(value)]
    if not names:
        return []
    return [int(index) for index in np.flatnonzero(pc.is_in(texts, pa.array(names, pa.string())))]


def refused(
    place: str, column: str, value: str, context: Mapping[str, Any] | None = None
) -> errors.SchemaMismatch:
    """The error for a value that names no operation, with the context of its place."""
    return errors.SchemaMismatch(
        f"{place}, column {column}: {value[:_VALUE_CHARS_MAX]!r} is not an operation; rows that delete have "
        f"{', '.join(DELETES)}, all other rows {', '.join(_UPSERTS)} or nothing",
        {**(context or {}), "place": place, "column": column, "value": value[:_VALUE_CHARS_MAX]},
    )
