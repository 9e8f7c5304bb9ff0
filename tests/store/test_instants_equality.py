"""Random histories, each played twice: in one instants and files leave, and all answers are the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import (
    cleans,
    compactions,
    deletions,
    instants,
    restores,
    rollbacks,
    savepoints,
    streams,
    sweeps,
)
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.policies import Policies
from chronolake_metastore.domain.results import StreamResult
from chronolake_metastore.queries import (
    deletable,
    file_groups as group_queries,
    files as file_queries,
    slices as slice_queries,
)
from chronolake_metastore.queries.slices import SliceSelection
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import catalog, cleans as stored_cleans, file_groups, partitions, services
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read
from chronolake_model import instants as wire
from chronolake_model.deletable import FindDeletableOrphans
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, TableType, View
from tests.store import archiving, shown, tampering
from tests.store.archive_reads import reader_of
from tests.store.shown import TESTER
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, stat
from tests.store.test_leaving_instants import LEAST, let_leave
from tests.store.thinned import query

BUCKETS: Final = (0, 1)
STEPS: Final = 40
_PUBLISHED: Final = statements.load("file_streams/published")


class Twice:
    """Sends each command to both databases, the second of which loses instants and files."""

    def __init__(self, dsns: list[str], folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.archive = archiving.local(folder)
        self.both = [TablesOfTypes(dsn) for dsn in dsns]
        self.databases = [Database(Settings(dsn=dsn), lambda: reader_of(self.archive)) for dsn in dsns]
        self.left = self.left_files = self.archived = 0
        self.generations: dict[tuple[str, int], int] = {}
        self.pending: list[wire.Instant] = []
        self.saved: dict[str, wire.Instant] = {}
        self.times: dict[str, list[Micros]] = {COW: [], MOR: []}
        for history in self.both:
            history.make_namespace("shop")
            history.make_table_of(COW, TableType.COPY_ON_WRITE, LEAST)
            history.make_table_of(MOR, TableType.MERGE_ON_READ, LEAST)

    def send(self, command: Command) -> Any:
        """The result of both; None if they refuse."""
        first, second = (history.send(command)[0] for history in self.both)
        assert self.shown(first, 0) == self.shown(second, 1), command
        return first.result if isinstance(first, Answer) else None

    def shown(self, value: object, number: int) -> str:
        text = repr(value.result if isinstance(value, Answer) else value)
        if isinstance(value, errors.TimelineError):
            text = f"{value.code} {value.detail} {value.context}"
        for table_id in self.ids(number).values():
            text = text.replace(str(table_id), "an id")
        return text

    def ids(self, number: int) -> dict[str, UUID]:
        return dict(query(self.both[number].dsn, "SELECT namespace || '.' || name, table_id FROM lake_table"))

    def pass_seconds(self, seconds: int) -> None:
        for history in self.both:
            history.pass_seconds(seconds)

    def step(self) -> None:
        table = self.random.choice((COW, MOR))
        actions = [self.write] * 6 + [self.clean] * 3 + [self.cluster, self.save, self.restore, self.release]
        actions += [self.compact] * 2 + [self.begin, self.end, self.end, self.lose, self.be_late]
        self.random.choice(actions)(table)
        self.pass_seconds(self.random.choice((1, 4_000)))
        self.sweep()

    # ------------------------------------------------------------------------------ commands

    def started(self, table: str, action: Action, *groups: FileGroupName) -> wire.Instant | None:
        plan = NewPlan(list(groups)) if groups else None
        result = self.send(instants.BeginInstant(table, writer="w", action=action, plan=plan))
        return None if result is None else shown.instant(result)

    def stat_of(
        self, instant: wire.Instant, bucket: int, *, log: bool = False, next_generation: bool = False
    ) -> WriteStat:
        generation = self.generations.get((instant.table, bucket), 0) + next_generation
        return stat(instant, bucket, log=log, generation=generation)

    def group_of(self, table: str, bucket: int) -> FileGroupName:
        return group(bucket, self.generations.get((table, bucket), 0))

    def finish(
        self, instant: wire.Instant, *stats: WriteStat, replaced: tuple[FileGroupName, ...] = ()
    ) -> bool:
        self.pass_seconds(1)
        result = self.send(completion(instant, *stats, replaced=replaced))
        if result is None:
            self.send(rollbacks.RollbackInstant(instant.table, parse_time(instant.requested_time), "w"))
            return False
        done = shown.instant(result)
        assert done.completion_time is not None
        self.times[instant.table].append(parse_time(done.completion_time))
        return True

    def begun(self, table: str) -> wire.Instant:
        instant = self.started(table, Action.COMMIT if table == COW else Action.DELTACOMMIT)
        assert instant is not None
        return instant

    def begin(self, table: str) -> None:
        self.pending.append(self.begun(table))

    def end(self, table: str) -> None:
        """Complete the oldest one that is pending, of this table if there is one."""
        self.pending.sort(key=lambda pending: pending.table != table)
        if self.pending:
            instant = self.pending.pop(0)
            log = instant.table == MOR and self.random.random() < 0.5
            self.finish(instant, self.stat_of(instant, self.random.choice(BUCKETS), log=log))

    def write(self, table: str) -> None:
        instant = self.begun(table)
        log = table == MOR and self.random.random() < 0.5
        self.finish(instant, self.stat_of(instant, self.random.choice(BUCKETS), log=log))

    def lose(self, table: str) -> None:
        instant = self.begun(table)
        self.send(rollbacks.RollbackInstant(table, parse_time(instant.requested_time), "w"))

    def cluster(self, table: str) -> None:
        bucket = self.random.choice(BUCKETS)
        name = self.group_of(table, bucket)
        instant = self.started(table, Action.CLUSTERING, name)
        if instant is not None:
            stats = self.stat_of(instant, bucket, next_generation=True)
            if self.finish(instant, msgspec.structs.replace(stats, records=1_000), replaced=(name,)):
                self.generations[table, bucket] = self.generations.get((table, bucket), 0) + 1

    def compact(self, table: str) -> None:
        if table == MOR:
            bucket = self.random.choice(BUCKETS)
            instant = self.started(table, Action.COMPACTION, self.group_of(table, bucket))
            if instant is not None:
                self.finish(instant, self.stat_of(instant, bucket))

    def clean(self, table: str) -> None:
        result = self.send(cleans.PlanClean(table, Retention(commits=1), "cleaner"))
        planned = None if result is None else shown.clean(result)
        if planned is not None:
            time = parse_time(planned.requested_time)
            names = query(
                self.both[0].dsn,
                f"SELECT name FROM event_entry WHERE instant = moment({time}) AND list = 'plan-files'",
            )
            self.send(deletions.ReportDeletions(table, time, [DeletedFile("", name) for (name,) in names]))
            self.send(instants.CompleteInstant(table, time))

    def sweep(self) -> None:
        unswept = query(
            self.both[0].dsn,
            "SELECT t.namespace || '.' || t.name, micros(i.requested_time), micros(i.unswept_since)"
            " FROM instant i JOIN lake_table t USING (table_id)"
            " WHERE i.unswept_since IS NOT NULL AND i.state IN ('completed', 'rolled_back') ORDER BY 2",
        )
        for table, time, since in unswept:
            self.send(sweeps.RecordSweep(table, time, since))

    def save(self, table: str) -> None:
        result = self.send(savepoints.CreateSavepoint(table, None, "operator"))
        if result is not None:
            self.saved[table] = shown.instant(result)

    def release(self, table: str) -> None:
        if table in self.saved:
            time = parse_time(self.saved.pop(table).requested_time)
            self.send(savepoints.ReleaseSavepoint(table, time, "operator"))

    def restore(self, table: str) -> None:
        if table in self.saved and not any(instant.table == table for instant in self.pending):
            time = parse_time(self.saved[table].requested_time)
            self.send(restores.RestoreTable(table, time, "operator"))
            self.release(table)
            for bucket in BUCKETS:
                live = query(
                    self.both[0].dsn,
                    "SELECT max(file_id) FROM file f JOIN lake_table t USING (table_id)"
                    f" WHERE superseded_at IS NULL AND t.namespace || '.' || t.name = '{table}'"
                    f" AND left(file_id, 8) = left('{group(bucket).file_id}', 8)",
                )
                generations = [g for g in range(50) if group(bucket, g).file_id == live[0][0]]
                self.generations[table, bucket] = generations[0] if generations else 0

    def stream(self) -> None:
        """Open a stream of one table, and close it: files of the table stay from now on, and instants leave."""
        opened = self.send(streams.OpenStream(MOR, "job", "w"))
        assert isinstance(opened, StreamResult)
        self.send(streams.CloseStream(MOR, "job", opened.of.stream.epoch))

    def be_late(self, table: str) -> None:
        """Commands on any instant; one that has left takes none."""
        times = query(
            self.both[0].dsn,
            "SELECT micros(requested_time) FROM instant JOIN lake_table t USING (table_id)"
            f" WHERE t.namespace || '.' || t.name = '{table}' ORDER BY 1",
        )
        if not times:
            return
        [time] = self.random.choice(times)
        commands: list[Command] = [
            rollbacks.RollbackInstant(table, time, "w"),
            instants.CompleteInstant(table, time),
            savepoints.CreateSavepoint(table, time, "operator"),
        ]
        first = border_of(self.both[1].dsn, table)
        if first is None or time >= first:
            return
        refusal = self.both[1].refused(self.random.choice(commands))
        assert refusal.context["state"] == "archived"
        # So that the keys of later commands are the same.
        self.both[0].send(instants.CompleteInstant("shop.nothing", time))
        self.archived += 1

    # ------------------------------------------------------------------------------ answers

    def leave(self) -> None:
        self.left += let_leave(self.both[1].dsn, self.archive)
        first, second = (query(history.dsn, "SELECT count(*) FROM file")[0][0] for history in self.both)
        self.left_files = first - second

    def compare(self) -> None:
        first, second = (self.both[number]._runner.run(self.answers(number)) for number in range(2))
        for one, other in zip(first, second, strict=True):
            assert one == other
        self.compare_audits()
        self.try_to_delete()

    def compare_audits(self) -> None:
        """Auditors get the same answer, or none from before the border; restores show files by their events."""
        for table in (COW, MOR):
            first = border_of(self.both[1].dsn, table) or 0
            removed, remaining = (
                query(
                    history.dsn,
                    "SELECT requested_time, file_name FROM audit_files"
                    f" WHERE change = 'removed' AND table_name = '{table}'"
                    f" AND requested_time >= moment({since}) AND requested_time NOT IN"
                    " (SELECT requested_time FROM instant WHERE action = 'restore') ORDER BY 1, 2",
                )
                for history, since in zip(self.both, (first, 0), strict=True)
            )
            assert removed == remaining
            for time in self.times[table]:
                [stayed], [left] = (
                    query(
                        history.dsn,
                        f"SELECT files, size_bytes, records FROM tables_as_of(moment({time}))"
                        f" WHERE table_name = '{table}'",
                    )
                    for history in self.both
                )
                assert left == stayed or (left == (None, None, None) and time < first)

    def try_to_delete(self) -> None:
        """No file may be deleted that was not cleaned, whether its row has left or not."""
        for table in (COW, MOR):
            names = query(
                self.both[0].dsn,
                "SELECT file_name, bool_and(cleaned_by IS NOT NULL)"
                " FROM file JOIN lake_table t USING (table_id)"
                f" WHERE t.namespace || '.' || t.name = '{table}' GROUP BY 1 ORDER BY 1",
            )
            needed = {DeletedFile("", name) for name, is_cleaned in names if not is_cleaned}
            body = FindDeletableOrphans([DeletedFile("", name) for name, _ in names])
            answer = self.both[1]._runner.run(
                deletable.find_deletable_orphans(TESTER, self.databases[1], table, body)
            )
            refused = {DeletedFile(of.partition_path, of.file_name) for of in answer.refused}
            assert needed <= refused

    async def answers(self, number: int) -> list[str]:
        answers: list[object] = []
        database = self.databases[number]
        for table, table_id in sorted(self.ids(number).items()):
            policies = Policies.of(LEAST)
            async with database.reading() as connection:
                of_table = await catalog.get_table(connection, table)
                assert of_table is not None
                compacted = await services.compaction_history(connection, table_id, policies.compaction)
                clustered = await services.clustering_history(connection, table_id, policies.clustering)
                bounds, now = await stored_cleans.read_bounds(connection, table_id, Retention(commits=1))
                cleaned = await services.clean_history(connection, of_table, policies.cleaning, now.steady)
                # When the first of the counted commits completed does not matter, but whether it was long ago.
                answers += [
                    bounds,
                    of_table,
                    compactions.is_due(policies.compaction, compacted, now.wall),
                    compactions.is_log_compaction_due(policies.compaction, compacted),
                    (compacted.last_requested, compacted.has_pending),
                    (clustered.since_requested.number, clustered.last_requested, clustered.has_pending),
                    (cleaned.since_requested.number, cleaned.has_pending, cleaned.savepoints),
                    groups(await services.log_groups(connection, table_id, None)),
                    groups(
                        await services.small_groups(connection, of_table, [""], policies.clustering, now.steady)
                    ),
                    await services.last_runs(connection, [table_id]),
                    await services.cancelled_clusterings(connection, [table_id]),
                    await services.last_expired(connection, [table_id]),
                ]
                left_out = await read(connection, file_groups.find_left_out(table_id, []))
                answers.append([(named, other.requested_time) for named, other in left_out])
                if self.times[table]:
                    named = {"table_id": table_id, "as_of": max(self.times[table])}
                    answers.append(sorted(await connection.execute(_PUBLISHED, named)))
                answers.append(await partitions.paths(connection, table_id, ""))
            answers.append(await file_queries.changes(TESTER, database, table, None, None, 1_000, None))
            for bucket in BUCKETS:
                for generation in range(self.generations.get((table, bucket), 0) + 1):
                    name = ("", group(bucket, generation).file_id)
                    for as_of in (None, *self.times[table][-20::4]):
                        try:
                            answers.append(
                                await group_queries.history(TESTER, database, table, name, as_of, 1_000, None)
                            )
                        except errors.HistoryCleaned as exc:
                            answers.append(exc.context)
            for time in self.times[table][-20:]:
                selection = SliceSelection(View.MERGED, before_or_on=time)
                try:
                    answers.append(
                        await slice_queries.snapshot(TESTER, database, table, selection, 1_000, None)
                    )
                except errors.HistoryCleaned as exc:
                    answers.append(exc.context)
                try:
                    answers.append(await file_queries.snapshot(TESTER, database, table, time, None, 100, None))
                    answers.append(await file_queries.changes(TESTER, database, table, time, None, 100, None))
                except errors.HistoryCleaned as exc:
                    answers.append(exc.context)
        return [self.shown(answer, number) for answer in answers]

    def close(self) -> None:
        for history, database in zip(self.both, self.databases, strict=True):
            history._runner.run(database.close())
            history.__exit__(None, None, None)


def groups(document: bytes) -> list[str]:
    """The file groups of a document, which has them in any order."""
    return sorted(map(repr, msgspec.json.decode(document)))


def border_of(dsn: str, table: str) -> Micros | None:
    rows = query(
        dsn,
        "SELECT micros(instants_from) FROM first_event JOIN lake_table t USING (table_id)"
        f" WHERE t.namespace || '.' || t.name = '{table}'",
    )
    return rows[0][0] if rows else None


def play(
    new_database: Callable[[], str],
    folder: Path,
    seeds: Iterable[int],
    steps: int,
    streams_of: Container[int] = (),
) -> tuple[int, int]:
    """The numbers of instants that left, and of commands on such. Some seeds get a stream in the middle."""
    left = left_files = archived = 0
    for seed in seeds:
        twice = Twice([new_database(), new_database()], folder / f"{seed}", seed)
        try:
            for number in range(steps):
                if number == steps // 2 and seed in streams_of:
                    twice.stream()
                twice.step()
                if number % 8 == 7:
                    twice.leave()
                    twice.compare()
            assert tampering.verify(twice.both[1].dsn, archive=twice.archive).findings == []
            left, archived = left + twice.left, archived + twice.archived
            left_files += twice.left_files
        finally:
            twice.close()
    assert left_files > 0
    return left, archived


def test_all_answers_are_those_of_a_history_whose_instants_stay(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    left, _ = play(new_database, tmp_path, [1], STEPS)
    assert left > 0


@pytest.mark.slow
def test_the_same_of_long_histories(new_database: Callable[[], str], tmp_path: Path) -> None:
    left, archived = play(new_database, tmp_path, range(2, 5), 120, streams_of={3, 4})
    assert left > 0
    assert archived > 0
