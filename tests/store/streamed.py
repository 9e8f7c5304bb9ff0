"""A history with streams of one merge-on-read table."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from chronolake_metastore.domain import checkpoints, streams, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.results import StreamInstantResult, StreamResult
from chronolake_model import tables as wire_tables
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.times import format_time
from chronolake_model.vocabulary import TableType
from tests.store.history import History

TABLE = "streamed.clicks"
ROWS = """
    SELECT b.file_id, b.partition_path, b.table_id, b.version, b.ordinal, b.requested_time, b.file_name, b.kind
    FROM chronolake.buffered_file b
    ORDER BY 1, 2, 3, 4, 5
"""


class Streamed:
    """A history with one table and its streams."""

    def __init__(self, history: History) -> None:
        self.history = history
        history.make_namespace("streamed")
        history.done(
            tables.CreateTable(
                NewDefinition(
                    TABLE,
                    "s3://lake/streamed",
                    [wire_tables.NewField("id", "bigint")],
                    ["id"],
                    type=TableType.MERGE_ON_READ,
                )
            )
        )

    def open(self, stream: str, restored_checkpoint: int | None = None, lease_seconds: int = 60) -> int:
        """Open a stream; gives its epoch."""
        result = self.history.done(
            streams.OpenStream(
                TABLE, stream, "w", restored_checkpoint=restored_checkpoint, lease_seconds=lease_seconds
            )
        )
        assert isinstance(result, StreamResult)
        return result.of.stream.epoch

    def report(self, stream: str, epoch: int, checkpoint: int, buckets: Sequence[int], task: str = "0") -> str:
        """Report log files as the last batch of a task; gives the instant."""
        asked = checkpoints.RequestInstant(TABLE, stream, epoch, task, checkpoint)
        given = self.history.done(asked)
        assert isinstance(given, StreamInstantResult)
        time = format_time(given.requested_time, given.tick)
        ids = [bucket_file_id(bucket) for bucket in buckets]
        names = [f".{file_id}_{time}.log.1_0-{task}-0" for file_id in ids]
        stats = [WriteStat("", file_id, name, 10, 1) for file_id, name in zip(ids, names, strict=True)]
        command = checkpoints.ReportWriteMetadata(
            TABLE,
            stream,
            epoch,
            task,
            checkpoint,
            requested_time=given.requested_time,
            write_stats=stats,
            last_batch=True,
        )
        self.history.done(command)
        return time

    def complete(self, stream: str, epoch: int, checkpoint: int) -> None:
        """Acknowledge a checkpoint."""
        self.history.done(checkpoints.CompleteCheckpoints(TABLE, stream, epoch, checkpoint))

    def rows(self) -> list[tuple[object, ...]]:
        """The projection."""
        with psycopg.connect(self.history.dsn) as connection:
            return connection.execute(ROWS).fetchall()

    def buckets(self) -> list[int]:
        """The buckets of the buffered files."""
        return [int(str(file_id)[:8]) for file_id, *_ in self.rows()]
