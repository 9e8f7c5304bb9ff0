"""Names of the columns beside those of a table: Hudi's five, and control columns that are not stored."""

from __future__ import annotations

from chronolake_model.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META,
    PARTITION_PATH,
    RECORD_KEY,
)

__all__ = [
    "BUCKET",
    "CHANGE_TYPE",
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "CONTROL",
    "DELETE",
    "FILE_NAME",
    "IS_MOVED",
    "IS_NEW",
    "META",
    "ORDER_PREFIX",
    "PARTITION_PATH",
    "RECORD_KEY",
    "REPEATED",
    "RESERVED_PREFIXES",
    "SOURCE_ORDER",
    "SOURCE_ROW",
    "SOURCE_SPLIT",
    "is_reserved",
]

BUCKET = "_chronolake_bucket"
DELETE = "_chronolake_delete"
CONTROL = (RECORD_KEY, PARTITION_PATH, BUCKET, DELETE)
"""The first columns of rows for the writer: the place of a row, and whether it is a delete."""

IS_NEW = "_chronolake_is_new"
"""A column that rows may have: whether the row inserts a record, whose key the table must not have."""

IS_MOVED = "_chronolake_is_moved"
"""A column beside ``IS_NEW``: whether the new record is a stored one, which the write moves here."""

ORDER_PREFIX = "_chronolake_order_"
"""The prefix of the next columns, ``_chronolake_order_0`` and so on, if any: they order rows of one key."""

SOURCE_SPLIT = "_chronolake_source_split"
SOURCE_ROW = "_chronolake_source_row"
SOURCE_ORDER = (SOURCE_SPLIT, SOURCE_ROW)
"""In rows read from files: the order of the files and of the rows in them."""

CHANGE_TYPE = "_change_type"
"""The column that an incremental read adds: ``upsert`` or ``delete``."""

REPEATED = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
"""Columns of data files in which few texts are repeated for all rows."""

RESERVED_PREFIXES = ("_hoodie_", "_chronolake_")


def is_reserved(name: str) -> bool:
    """Whether a table may not have a column of this name."""
    return name.lower().startswith(RESERVED_PREFIXES) or name.lower() == CHANGE_TYPE
