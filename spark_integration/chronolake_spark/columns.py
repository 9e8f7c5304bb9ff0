"""Names of the columns that travel beside a table's own: Hudi's five, and those that end at the writer."""

from __future__ import annotations

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""First in each data file, in this order, all strings."""

BUCKET = "_chronolake_bucket"
DELETE = "_chronolake_delete"
POSITION = "_chronolake_position"
CONTROL = (RECORD_KEY, PARTITION_PATH, BUCKET, DELETE, POSITION)
"""First in a frame on its way to the writer: where a row goes, whether it deletes, and which came later."""

CHANGE_TYPE = "_change_type"
"""What an incremental read adds: ``upsert`` or ``delete``."""

RESERVED_PREFIXES = ("_hoodie_", "_chronolake_")


def is_reserved(name: str) -> bool:
    """Whether a table may not have a column of this name."""
    return name.lower().startswith(RESERVED_PREFIXES) or name.lower() == CHANGE_TYPE
