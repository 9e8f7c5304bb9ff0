"""The writer of a streaming task, without an engine: rows go into buffers, and from there into files.

``TaskWriter`` is Hudi's stream write function (RFC-24) as a library; it needs ``chronolake[arrow]``. A
``TaskFiles`` writes the files: ``chronolake_spark.StreamFiles`` does so for tables with a bucket index, in
Arrow and without Spark.
"""

from __future__ import annotations

from chronolake.errors import BuffersFull
from chronolake.streaming.protocols import Flushed, TaskFiles, TaskStream
from chronolake.streaming.task_writer import Limits, TaskWriter
from chronolake.streaming.written import Written

__all__ = ["BuffersFull", "Flushed", "Limits", "TaskFiles", "TaskStream", "TaskWriter", "Written"]
