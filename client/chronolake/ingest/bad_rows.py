"""The errors of rows that no table can hold, of which many are reported at once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import errors
from chronolake_model.names import counted

REPORTED_MAX: Final = 100
"""Maximum number of bad rows that one error names."""
SET_ASIDE_MAX: Final = 10_000
"""Maximum number of bad rows of one load that are set aside; a load with more is refused."""
WITHOUT_ARRAYS: Final = "write each record on a line of its own, as jq -c '.[]' does"
"""Advice for an array of JSON, whose records are not set aside."""


class TooManyBadRows(Exception):
    """There are more bad rows than are collected."""


class BadRows:
    """Collects the errors of bad rows. At the last of ``rows_max`` it raises ``TooManyBadRows``."""

    def __init__(self, rows_max: int = REPORTED_MAX) -> None:
        self.rows_max = rows_max
        self.errors: list[errors.LocalError] = []

    def add(self, *of_rows: errors.LocalError) -> None:
        """Add the errors of rows, one each."""
        self.errors += of_rows
        if len(self.errors) >= self.rows_max:
            raise TooManyBadRows


@contextlib.contextmanager
def refused() -> Iterator[BadRows]:
    """A collector. At the end of the block its errors are raised together."""
    bad = BadRows()
    with contextlib.suppress(TooManyBadRows):
        yield bad
    if bad.errors:
        raise together(bad.errors)


def together(bad: Sequence[errors.LocalError]) -> errors.LocalError:
    """One error, of the class of the first, that names up to ``REPORTED_MAX`` bad rows."""
    first = bad[0]
    named = bad[:REPORTED_MAX]
    count = counted(len(bad), "bad row") if len(bad) < REPORTED_MAX else f"{REPORTED_MAX} bad rows or more"
    assert first.problem is not None, "an error of the integration has a problem"
    rows = [error.problem.context for error in named if error.problem is not None]
    is_of_array = any(str(row.get("place", "")).startswith("record ") for row in rows)
    advice = "with --bad-rows FILE bad rows are written to it, and all others loaded"
    if is_of_array:
        advice = f"{WITHOUT_ARRAYS}: then {advice}"
    detail = "\n".join([*map(str, named), f"{count}; {advice}"])
    return type(first)(detail, {**first.problem.context, "bad_rows": rows})


def first_without_key(rows: pa.RecordBatch, key: Sequence[str]) -> int | None:
    """The index of the first row in which all columns of the record key are null or empty texts.

    None if there is none, or ``rows`` lacks a column of the key. The case of names does not count.
    """
    missing = rows_without_key(rows, key)
    return int(missing.argmax()) if missing.any() else None


def rows_without_key(rows: pa.RecordBatch, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each row whether all values of the key are null or empty."""
    names = {name.lower(): name for name in rows.schema.names}
    if not key or any(name.lower() not in names for name in key):
        return np.zeros(len(rows), np.bool_)
    missing = functools.reduce(pc.and_, (_is_missing(rows[names[name.lower()]]) for name in key))
    mask: npt.NDArray[np.bool_] = missing.to_numpy(zero_copy_only=False)
    return mask


def _is_missing(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return values.is_null()
    return pc.fill_null(pc.equal(values, ""), True)
