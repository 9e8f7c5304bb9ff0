"""The projection of files in the buffers of streams, against what the buffers name and what a replay gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from chronolake_metastore.domain import checkpoints
from chronolake_metastore.domain.proof import ProofFinding
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.times import parse_time
from tests.store.history import History
from tests.store.streamed import TABLE, Streamed


@pytest.fixture
def streamed(dsn: str) -> Iterator[Streamed]:
    """A table with streams; at the end the log is verified, and the projection made anew."""
    with History(dsn) as history:
        streamed = Streamed(history)
        yield streamed
        before = streamed.rows()
        assert asyncio.run(verification.verify(Settings(dsn=dsn))).findings == []
        _delete(dsn)
        assert {finding.what.partition("(")[0] for finding in _verified(dsn)} == {"buffered_file"}
        asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))
        assert streamed.rows() == before


def _verified(dsn: str) -> list[ProofFinding]:
    return list(asyncio.run(verification.verify(Settings(dsn=dsn))).findings)


def _delete(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("DELETE FROM chronolake.buffered_file")


def test_reported_files_stay_until_their_task_restarts_or_their_instant_ends(streamed: Streamed) -> None:
    job, other = streamed.open("job"), streamed.open("other")
    streamed.report("job", job, -1, [0, 1])
    streamed.report("job", job, 1, [0, 2])
    streamed.report("job", job, 1, [3], task="1")
    streamed.report("other", other, -1, [0])
    assert streamed.buckets() == [0, 0, 0, 1, 2, 3]

    streamed.history.done(checkpoints.RestartTask(TABLE, "job", job, "0", restored_checkpoint=1))
    assert streamed.buckets() == [0, 0, 1, 3]

    streamed.complete("job", job, 1)
    assert streamed.buckets() == [0, 3]

    streamed.open("job", restored_checkpoint=1)
    assert streamed.buckets() == [0]


def test_files_that_are_reported_and_dropped_in_one_transaction_are_not_there(streamed: Streamed) -> None:
    epoch = streamed.open("job")
    time = streamed.report("job", epoch, -1, [0], task="1")
    name = f".{bucket_file_id(1)}_{time}.log.1_0-0-0"
    stats = [WriteStat("", bucket_file_id(1), name, 10, 1)]
    requested_time = parse_time(time)
    report = checkpoints.ReportWriteMetadata(
        TABLE, "job", epoch, "0", -1, requested_time=requested_time, write_stats=stats
    )
    again = checkpoints.ReportWriteMetadata(
        TABLE, "job", epoch, "2", -1, requested_time=requested_time, write_stats=stats, last_batch=True
    )

    streamed.history.send(
        report,
        checkpoints.RestartTask(TABLE, "job", epoch, "0"),
        again,
    )

    assert streamed.buckets() == [0, 1]
    streamed.report("job", epoch, 1, [2], task="1")
    streamed.complete("job", epoch, 1)
    assert streamed.buckets() == [2]
