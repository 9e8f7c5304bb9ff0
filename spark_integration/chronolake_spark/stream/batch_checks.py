"""Checks that a streaming query can write its batches; each refusal says why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from chronolake_model import merge_modes
from chronolake_model.merge_modes import MergeMode
from chronolake_model.streams import STREAM_NAME_PATTERN
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import errors

BatchOperation: TypeAlias = Literal["upsert", "insert", "bulk_insert", "delete"]
_STREAM_NAME = re.compile(STREAM_NAME_PATTERN)


def stream_name(given: str | None, query_id: str | None) -> str:
    """The name of the stream: the given one, or the id of the query. Raises ``StreamMismatch``."""
    name = given or query_id
    if name is None:
        raise errors.StreamMismatch(
            "the batch is of no streaming query: start a query with foreachBatch, or name the stream"
        )
    if not _STREAM_NAME.fullmatch(name):
        raise errors.StreamMismatch(
            f"{name!r} is no name of a stream: it has 1 to 255 letters, digits and _.:@=~-, a letter or digit "
            "first"
        )
    return name


def refuse_arguments(
    operation: BatchOperation,
    delete_when: object | None,
    row_order: Sequence[object],
    merge_schema: bool,
    pending_max: int,
) -> None:
    """Raise ``ValueError`` for arguments that an operation does not have."""
    if delete_when is not None and operation != "upsert":
        raise ValueError(f"delete_when is for the operation upsert, not for {operation}")
    if row_order and operation not in ("upsert", "insert"):
        raise ValueError(f"row_order is for the operations upsert and insert, not for {operation}")
    if merge_schema and operation == "delete":
        raise ValueError("merge_schema is not for the operation delete, which writes no columns")
    if pending_max < 0:
        raise ValueError(f"pending_max is a number of batches, not {pending_max}")


def refuse_table(table: Table, operation: BatchOperation, how: Mapping[str, Any], pending_max: int) -> None:
    """Raise ``StreamMismatch`` if batches of the table cannot complete while later ones are written.

    Nothing writes a batch again once it is reported. So its completion must not conflict, and a later batch
    must not need to read it.
    """
    if not pending_max:
        return
    is_log = table.type is TableType.MERGE_ON_READ and table.index.type is IndexType.BUCKET
    why = None
    if operation == "insert":
        why = "an insert looks its keys up in the table, which does not show the batches that are pending"
    elif operation == "bulk_insert" and table.index.type is IndexType.RECORD:
        why = "the record index must know the batches before"
    elif operation == "bulk_insert" and table.index.type is IndexType.BUCKET and not is_log:
        why = "a bucket of a copy-on-write table is one base file, which each batch writes anew"
    elif operation in ("upsert", "delete") and not is_log:
        why = f"only a merge-on-read table with a bucket index takes an {operation} that reads nothing"
    elif operation in ("upsert", "delete") and _reads(table, how, is_delete=operation == "delete"):
        why = "it depends on stored records, which may be those of a pending batch"
    if why is not None:
        raise errors.StreamMismatch(
            f"{table.name}: batches of this {operation} cannot be pending (pending_max={pending_max}): {why}. "
            "Leave pending_max out",
            {"table": table.name, "operation": operation},
        )


def _reads(table: Table, how: Mapping[str, Any], *, is_delete: bool) -> bool:
    """Whether an append to the log reads the records that it changes: ordered deletes, or partial updates."""
    has_deletes = is_delete or how.get("delete_when") is not None
    mode = merge_modes.mode_of(table.ordering_field, table.properties)
    return (has_deletes and bool(table.merge_fields)) or mode is MergeMode.PARTIAL_UPDATE
