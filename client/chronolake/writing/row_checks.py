"""Checks of the incoming rows of a file group, and the errors of rows that are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import columns, errors
from chronolake.slices.merge import Decision, Latest
from chronolake_model import meta_columns
from chronolake_model.tables import Table


def check_required(rows: pa.Table, required: Sequence[str]) -> None:
    """Raise ``RequiredValueMissing`` if one of these columns is null in a row that does not delete."""
    if not required:
        return
    is_upsert = pc.invert(rows[columns.DELETE])
    for name in required:
        if not rows[name].null_count:
            continue
        if nulls := pc.sum(pc.and_(rows[name].is_null(), is_upsert)).as_py():
            raise errors.RequiredValueMissing(
                f"the column {name!r} is not nullable, but is null in {nulls} rows "
                f"(of {pc.sum(is_upsert).as_py()} checked together)",
                {"column": name},
            )


def check_delete_flags(rows: pa.Table) -> None:
    """Raise ``SchemaMismatch`` for a row that is to be stored, and that Hudi's readers take for a delete."""
    if meta_columns.IS_DELETED not in rows.column_names:
        return
    is_upsert = pc.invert(rows[columns.DELETE])
    if count := pc.sum(pc.and_(pc.fill_null(rows[meta_columns.IS_DELETED], False), is_upsert)).as_py():
        raise errors.SchemaMismatch(
            f"{meta_columns.IS_DELETED} is true in {count} rows (of {len(rows)} checked together), which "
            "deletes a record in Hudi: delete these records with delete(), or with upsert(..., "
            f"delete_when='{meta_columns.IS_DELETED}')",
            {"column": meta_columns.IS_DELETED},
        )


def check_ordering(rows: pa.Table, ordering_fields: Sequence[str]) -> None:
    """Raise ``InvalidOrderingValue`` for values by which readers of log files order in several ways."""
    for name in ordering_fields:
        if pa.types.is_floating(rows[name].type):
            _check_floating(rows[name], name)


def _check_floating(values: pa.ChunkedArray, ordering_field: str) -> None:
    # Hudi's readers take -0.0 for less than 0.0, to which it is equal elsewhere.
    is_negative_zero = pc.and_(pc.equal(values, 0.0), pc.less(pc.divide(1.0, values), 0.0))
    for value, advice, is_it in (
        ("NaN", "give these rows a number", pc.is_nan(values)),
        ("-0.0", "write 0.0", is_negative_zero),
    ):
        if count := pc.sum(is_it).as_py():
            raise errors.InvalidOrderingValue(
                f"the ordering field {ordering_field!r} is {value} in {count} rows (of {len(values)} "
                f"checked together); {advice}",
                {"column": ordering_field},
            )


def refuse_repeated_keys(rows: pa.Table) -> None:
    """Raise ``DuplicateKeys`` if several rows are of one record, unless all of them delete it."""
    keys = rows[columns.RECORD_KEY].cast(pa.large_string())
    upserted = keys.filter(pc.invert(rows[columns.DELETE])).unique()
    others = rows.filter(pc.is_in(keys, value_set=upserted))
    if len(others) == len(upserted):
        return
    key, count = repeated(others)
    raise errors.DuplicateKeys(
        f"{count} rows of the source change or insert the record with the key {key!r}: keep one of them in the "
        "source, or add conditions to the clauses",
        {"duplicates": count, "record_key": key},
    )


ORDER_BY_SPARK: Final = (
    "Order the rows with row_order (in SQL INSERT INTO … WITH (row_order = 'column')), keep one row of each "
    "key, or use a table with an ordering field that distinguishes them"
)
ORDER_BY_FIELD: Final = (
    "Keep one row of each key, or use a table with an ordering field that distinguishes them"
)


def ambiguous_order(latest: Latest, advice: str = ORDER_BY_SPARK) -> errors.DuplicateKeys:
    """The error of rows of one key that nothing orders."""
    return errors.DuplicateKeys(
        f"{latest.ambiguous} rows differ from another row of the write with the same record key, and their "
        f"order is not defined; for example {latest.ambiguous_key!r}. {advice}",
        {"duplicates": latest.ambiguous, "record_key": latest.ambiguous_key},
    )


def existing_keys(table: Table, count: int, key: str | None) -> errors.DuplicateKeys:
    """The error of an insert of keys that exist, or come twice."""
    return errors.DuplicateKeys(
        f"{count} of the rows to insert into {table.name} have a record key that the table, "
        f"or an earlier row of the write, has already; for example {key!r}. Use upsert, or duplicates='drop'",
        {"duplicates": count, "record_key": key},
    )


def with_repeated(decision: Decision, rows: pa.Table, count: int) -> Decision:
    """``decision``, with repeated keys within the rows also counted as refused."""
    sample, _ = repeated(rows)
    return dataclasses.replace(
        decision,
        duplicates=decision.duplicates + count,
        duplicate_key=decision.duplicate_key or sample,
    )


def repeated(rows: pa.Table) -> tuple[str, int]:
    """A record key that several rows have, and their number."""
    counts = rows[columns.RECORD_KEY].value_counts()
    first = counts.filter(pc.greater(counts.field("counts"), 1))[0]
    return first["values"].as_py(), first["counts"].as_py()
