"""The size of the database while commits are cleaned, archived and dropped: it should not grow.

``python -m benchmarks.growth`` runs it; ``COMMITS=20000`` is the number of commits, in ``ROUNDS=10`` rounds.
The groups of commands that a server would make are executed here: a million commits take an hour or two.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import uvloop

import chronolake
from benchmarks import archive, reporting, running
from benchmarks.reporting import Row
from chronolake_metastore.archive import dropping, writing
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant, TableInstant
from chronolake_metastore.domain.results import InstantResult
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import times
from chronolake_model.vocabulary import Operation
from chronolake_storage import opening

ROUNDS: Final = int(os.environ.get("ROUNDS", "10"))
GROUP: Final = 100
"""Commits of one group of commands, each to a bucket of its own."""
TABLE: Final = "bench.archive"
LEAST: Final = {"hoodie_keep_min_commits": "10", "hudi_publish": "false", "deletions_grace-seconds": "0"}
"""Properties of a table that keeps as little history as it may."""
GROWTH_BYTES_MAX: Final = 50
"""A commit may add this much to the indexes of an archive that has left, and to statistics."""


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and the target is missed."""
    reporting.finish(measure(running.postgres()), f"{archive.COMMITS:,} commits in {ROUNDS} rounds")


def measure(dsn: str) -> Iterator[Row]:
    """Bytes by table after each round; and of the last half of the rounds, those that a commit adds."""
    after: list[Counter[str]] = []
    with (
        running.server(dsn),
        tempfile.TemporaryDirectory() as lake,
        tempfile.TemporaryDirectory() as folder,
    ):
        uvloop.run(_create_table(f"file://{lake}"))
        storage = ArchiveStorage(opening.open_files(folder))
        for turn in range(ROUNDS):
            commits = range(turn * archive.COMMITS // ROUNDS, (turn + 1) * archive.COMMITS // ROUNDS)
            uvloop.run(_commit(dsn, storage, commits))
            uvloop.run(_clean())
            # The second time the archive reaches beyond the end of the era that the first one began.
            for _ in range(2):
                asyncio.run(writing.write(Settings(dsn=dsn, role="chronolake_auditor"), storage))
                asyncio.run(dropping.drop(Settings(dsn=dsn), storage, 0))
            archive.vacuum(dsn)
            after.append(_by_table(dsn))
            yield Row(f"after {commits.stop:,} commits", _shown(after[-1]))
    half = len(after) // 2
    commits_of_half = archive.COMMITS * (len(after) - half) // ROUNDS
    grown = {table: (size - after[half - 1][table]) / commits_of_half for table, size in after[-1].items()}
    for table, size in sorted(grown.items(), key=lambda item: -item[1]):
        if abs(size) >= 1:
            yield Row(f"  {table}", f"{size:,.0f} bytes/commit")
    name = "bytes that a commit adds, in the last half"
    yield reporting.at_most(name, sum(grown.values()), GROWTH_BYTES_MAX, "bytes")


async def _create_table(base_path: str) -> None:
    await archive.create_table(base_path, GROUP, **LEAST)
    async with chronolake.connect_async(running.URL) as client:
        await (await client.table(TABLE)).claim_storage()


async def _commit(dsn: str, storage: ArchiveStorage, commits: range) -> None:
    """Commit in groups: each writer begins an instant, and then completes it."""
    database = Database(Settings(dsn=dsn), lambda: ArchiveReader(storage))
    session = Session(database)
    try:
        for first in range(commits.start, commits.stop, GROUP):
            numbers = range(first, min(first + GROUP, commits.stop))
            begins = [BeginInstant(TABLE, writer="bench", operation=Operation.UPSERT) for _ in numbers]
            completes = []
            for number, begun in zip(numbers, await _run(session, begins), strict=True):
                requested_time = begun.instant.requested_time
                stat = archive.stat(number - first, number, times.format_time(requested_time, begun.tick))
                completes.append(CompleteInstant(TABLE, requested_time, [stat]))
            assert all(instant.instant.completion_time for instant in await _run(session, completes))
    finally:
        await session.close()
        await database.close()


async def _run(session: Session, sent: Sequence[Command]) -> Iterator[TableInstant]:
    """Execute instants' commands as one group; gives the instants."""
    requests = [group.request_of(Context("bench", str(uuid.uuid4())), command) for command in sent]
    answers = (await group.run(session, requests, drift_max_us=1_000_000)).results
    return (_instant_of(answer) for answer in answers)


def _instant_of(answer: group.Result) -> TableInstant:
    assert isinstance(answer, Answer), answer
    assert isinstance(answer.result, InstantResult), answer
    return answer.result.of


async def _clean() -> None:
    async with chronolake.connect_async(running.URL) as client:
        await (await client.table(TABLE)).clean(retain_commits=10)


def _by_table(dsn: str) -> Counter[str]:
    by_table: Counter[str] = Counter()
    for (table, _), size in archive.sizes_of(dsn).items():
        by_table[table] += size
    return by_table


def _shown(by_table: Counter[str]) -> str:
    largest = ", ".join(f"{table} {size / 1e6:,.1f}" for table, size in by_table.most_common(6))
    return f"{by_table.total() / 1e6:,.1f} MB: {largest}"


if __name__ == "__main__":
    main()
