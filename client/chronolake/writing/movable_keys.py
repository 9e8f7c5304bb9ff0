"""Tables whose records can move between partitions: a delete at the old place needs an ordering value."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake.slices import errors
from chronolake_hudi import log_blocks
from chronolake_hudi.errors import UnsupportedFormat
from chronolake_model.tables import Field
from chronolake_model.vocabulary import IndexType, TableType


def check(
    name: str,
    fields: Sequence[Field],
    type_: TableType,
    index: IndexType,
    partition_fields: Sequence[str],
    merge_fields: Sequence[str],
) -> None:
    """Refuse an ordering field whose values deletes in log files cannot have: a record that moves needs one.

    Raises ``SchemaMismatch``.
    """
    ordering = next((field for field in fields if field.name in merge_fields), None)
    is_concerned = index is IndexType.RECORD and type_ is TableType.MERGE_ON_READ and partition_fields
    if ordering is None or not is_concerned:
        return
    try:
        log_blocks.wrapper_of(ordering.type)
    except UnsupportedFormat as exc:
        raise errors.SchemaMismatch(
            f"records of {name} cannot move between its partitions: log files of Hudi cannot hold deletes "
            f"with ordering values of type {ordering.type}, as {ordering.name} has. Order by a column of "
            "another type, make the table copy-on-write, or take an index other than record",
            {"column": ordering.name},
        ) from exc
