"""Names of the columns that Hudi puts before a table's own in each data file."""

from __future__ import annotations

from typing import Final

COMMIT_TIME: Final = "_hoodie_commit_time"
"""The requested time of the instant that wrote the record last."""
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
"""``<commit time>_<partition of the write token>_<number>``: unique among the records of a commit."""
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"
"""The name of the file that the record is in."""

IS_DELETED: Final = "_hoodie_is_deleted"
"""A column of the table's own, of tables that Hudi wrote: a record in which it is true deletes its key."""

META: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""First in each data file, in this order, all strings."""

FIELD_IDS: Final = {name: 2_000_000_001 + number for number, name in enumerate(META)}
"""Their field ids in data files: greater than those of any table's columns."""
