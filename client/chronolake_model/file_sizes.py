"""The sizes that writers of base files aim at, as properties of a table (Hudi's settings of the same meaning).

They hold for tables whose index leaves the choice of file groups to the writer, so not for the bucket index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

SMALL_FILE_LIMIT_PROPERTY: Final = "files.small-file-limit"
"""Base files with fewer bytes take further inserts; 0 if none does (hoodie.parquet.small.file.limit)."""
MAX_FILE_SIZE_PROPERTY: Final = "files.max-file-size"
"""The bytes that a base file should have at most (hoodie.parquet.max.file.size)."""
RECORD_SIZE_PROPERTY: Final = "files.record-size-estimate"
"""Bytes of a record while no commit is large enough to say (hoodie.copyonwrite.record.size.estimate)."""
BYTES_MAX: Final = 2**40
"""The largest value of these properties."""


class FileSizes(msgspec.Struct, frozen=True):
    """The sizes of a table, in bytes. A file may grow beyond ``max_file_size``: it is an aim, not a bound."""

    small_file_limit: int = 104_857_600
    max_file_size: int = 125_829_120
    record_size: int = 1_024

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FileSizes:
        """The sizes that the properties of a table state, which the server has checked, or the defaults."""
        names = {
            "small_file_limit": SMALL_FILE_LIMIT_PROPERTY,
            "max_file_size": MAX_FILE_SIZE_PROPERTY,
            "record_size": RECORD_SIZE_PROPERTY,
        }
        return cls(**{part: int(properties[name]) for part, name in names.items() if name in properties})
