"""The values of the operation column of files, which mark rows that delete."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark import errors

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
    texts = values.cast(pa.string())
    unknown = [value for value in pc.unique(texts).to_pylist() if value is not None and not is_known(value)]
    if not unknown:
        return None
    index: int = pc.index(pc.is_in(texts, pa.array(unknown, pa.string())), True).as_py()
    return index


def refused(place: str, column: str, value: str) -> errors.SchemaMismatch:
    """The error for a value that names no operation."""
    return errors.SchemaMismatch(
        f"{place}, column {column}: {value[:_VALUE_CHARS_MAX]!r} is not an operation; rows that delete have "
        f"{', '.join(DELETES)}, all other rows {', '.join(_UPSERTS)} or nothing",
        {"place": place, "column": column, "value": value[:_VALUE_CHARS_MAX]},
    )
