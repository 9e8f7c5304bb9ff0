"""Spark's source of the files that arrive: a query over it has batches of their names, not of their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from chronolake.ingest import arrivals
from chronolake.ingest.arrivals import Arrival, ArrivalLog

FORMAT: Final = "chronolake_arrivals"


class ArrivalsDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """The files that arrive; its options are ``source``, ``log``, a folder, and ``max_files`` of a batch."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return FORMAT

    def schema(self) -> str:
        """The fields of ``Arrival``."""
        return "path string, size_bytes long, modified_ns long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of one query."""
        return ArrivalsReader(self.options["source"], self.options["log"], int(self.options["max_files"]))


@dataclass(frozen=True)
class _Files(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    files: Sequence[Arrival]


class ArrivalsReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is untyped here
    """The offset is the number of a batch in the log."""

    def __init__(self, source: str, log: str, max_files: int) -> None:
        self._source = source
        self._folder = log
        self._max_files = max_files
        self._log: ArrivalLog | None = None

    def initialOffset(self) -> dict[str, int]:
        """Before the first batch."""
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next batch, if there is one, or if new files make one."""
        log, number = self._opened(), int(start["batch"]) + 1
        if log.batch(number) is None:
            found = log.new(arrivals.present(self._source, time.time()))
            if not found:
                return start
            log.append(number, found[: self._max_files])
        return {"batch": number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task with the names of the files."""
        log = self._opened()
        numbers = range(int(start["batch"]) + 1, int(end["batch"]) + 1)
        return [_Files([file for number in numbers for file in log.batch(number) or ()])]

    def read(self, partition: _Files) -> Iterator[tuple[str, int, int]]:
        """The names of the files."""
        return iter([(file.path, file.size_bytes, file.modified_ns) for file in partition.files])

    def _opened(self) -> ArrivalLog:
        if self._log is None:
            self._log = ArrivalLog(Path(self._folder))
        return self._log
