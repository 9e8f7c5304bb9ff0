"""The writer of a streaming task, without an engine: rows go into buffers, and from there into files.

``TaskWriter`` is Hudi's stream write function (RFC-24) as a library; it needs ``chronolake[arrow]``. A
``TaskFiles`` writes the files: ``StreamFiles`` does so for tables with a bucket index.
"""

from __future__ import annotations

from chronolake.errors import BuffersFull
from chronolake.streaming.protocols import Flushed, TaskFiles, TaskStream
from chronolake.streaming.stream_files import StreamFiles
from chronolake.streaming.task_writer import Limits, TaskWriter
from chronolake.streaming.written import Written

__all__ = [
    "BuffersFull",
    "Flushed",
    "Limits",
    "StreamFiles",
    "TaskFiles",
    "TaskStream",
    "TaskWriter",
    "Written",
]
