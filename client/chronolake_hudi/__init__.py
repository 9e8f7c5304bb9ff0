"""Hudi's formats as bytes: table properties, timeline, metadata, schemas and log files.

Everything here is pure: bytes in, bytes out. ``properties`` has the table's properties, ``timeline_files`` the
names on its timeline, ``metadata`` what the files of the timeline hold, ``partition_metadata`` the file in each
partition, ``avro_schema`` the table's schema in Avro, ``log_files`` and ``log_blocks`` the log files. Table
versions 8 and 9 are written; version 6 is read too.
"""

from __future__ import annotations
