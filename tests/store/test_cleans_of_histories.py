"""Random histories with cleans, compared with a reader that knows only the events."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest
from msgspec.structs import asdict

from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import deletions, instants, restores, rollbacks, savepoints, tables
from chronolake_metastore.domain.cleans import PlanClean, Retention
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.notes import readers
from chronolake_model import instants as wire, tables as wire_tables
from chronolake_model.cleans import CleanPolicy
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.markers import DeletedFile
from chronolake_model.readers import BeginReading
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import Action, TableType
from tests.store import shown, tampering
from tests.store.history import History
from tests.store.naive_reader import Group, Log
from tests.store.shown import TESTER

TABLE = "shop.orders"
STEPS = 60
BUCKETS = 3
HOUR = 3_600
POLICIES = (
    CleanPolicy(retain_commits=1),
    CleanPolicy(retain_commits=1),
    CleanPolicy(retain_commits=3),
    CleanPolicy(retain_hours=1),
    CleanPolicy(retain_versions=1),
    CleanPolicy(retain_versions=2),
)


class Cleaned:
    """A table that is written and cleaned, with random other commands."""

    def __init__(self, history: History, seed: int) -> None:
        self.history = history
        self.random = random.Random(seed)
        self.type = self.random.choice(list(TableType))
        self.admin = psycopg.connect(history.dsn, autocommit=True)
        self.admin.execute("SET search_path = chronolake")
        self.pending: dict[str, list[Group]] = {}
        """Instants in progress or planned, with the file groups of plans."""
        self.savepoints: dict[str, int] = {}
        """With the completion times that they pin."""
        self.leases: dict[str, int] = {}
        self.cleaned: set[str] = set()
        self.cleans = 0
        self.generations = [0] * BUCKETS
        history.make_namespace("shop")
        fields = [wire_tables.NewField("id", "bigint")]
        table = wire_tables.CreateTable(TABLE, "s3://lake/orders", fields, ["id"], self.type)
        history.done(
            tables.CreateTable(
                NewDefinition(
                    **asdict(msgspec.structs.replace(table, index=wire_tables.NewBucketIndex(buckets=BUCKETS)))
                )
            )
        )

    # ------------------------------------------------------------------------------ rules

    def step(self) -> None:
        """One of the possible steps."""
        steps: list[Callable[[], None]] = [
            *[self.write] * 8,
            *[self.clean] * 5,
            *(self.replace, self.begin, self.plan, self.save, self.read, self.wait),
            *[self.give_up] * 4,
            *[self.end_reading] * 2,
            *(self.release, self.restore, self.restore),
        ]
        self.random.choice(steps)()

    def write(self) -> None:
        buckets = self.random.sample(range(BUCKETS), self.random.randint(1, BUCKETS))
        is_log = self.type is TableType.MERGE_ON_READ and self.random.random() < 0.5
        time = self._begun(wire.BeginInstant("w", self._write_action))
        self._complete(time, [self._stat(time, self._group(bucket), is_log) for bucket in buckets])

    def replace(self) -> None:
        live = sorted(self._state().seen("merged"))
        if not live:
            return
        bucket = int(self.random.choice(live)[1][:8])
        gone = FileGroupName(*self._group(bucket))
        time = self._begun(wire.BeginInstant("w", Action.REPLACECOMMIT))
        self.generations[bucket] += 1
        if not self._complete(time, [self._stat(time, self._group(bucket), is_log=False)], [gone]):
            self.generations[bucket] -= 1

    def begin(self) -> None:
        self.pending[self._begun(wire.BeginInstant("w", self._write_action, lease_seconds=86_400))] = []

    def plan(self) -> None:
        services = [Action.CLUSTERING, *([Action.COMPACTION] if self.type is TableType.MERGE_ON_READ else [])]
        planned = {group for groups in self.pending.values() for group in groups}
        free = sorted(self._state().seen("merged").keys() - planned)
        if free:
            group = self.random.choice(free)
            plan = wire.Plan([FileGroupName(*group)])
            action = self.random.choice(services)
            self.pending[self._begun(wire.BeginInstant("w", action, inflight=False, plan=plan))] = [group]

    def give_up(self) -> None:
        if self.pending:
            time = self.random.choice(sorted(self.pending))
            del self.pending[time]
            self._roll_back(time)

    def save(self) -> None:
        command = savepoints.CreateSavepoint(TABLE, None, "w")
        [answer] = self.history.send(command)
        if isinstance(answer, Answer):
            savepoint = shown.instant(answer.result)
            assert savepoint.target is not None
            self.savepoints[savepoint.requested_time] = self._completion_of(savepoint.target)

    def release(self) -> None:
        if self.savepoints:
            time = self.random.choice(sorted(self.savepoints))
            del self.savepoints[time]
            self._done(savepoints.ReleaseSavepoint(TABLE, parse_time(time), "w"))

    def restore(self) -> None:
        """Restore to the last savepoint, after all pending instants were rolled back."""
        if not self.savepoints:
            return
        while self.pending:
            self.give_up()
        time = max(
            self.savepoints, key=lambda requested_time: (self.savepoints[requested_time], requested_time)
        )
        [answer] = self.history.send(restores.RestoreTable(TABLE, parse_time(time), "w"))
        assert isinstance(answer, Answer)
        replaced = self._state().replaced
        self.generations = [
            next(number for number in range(100) if ("", bucket_file_id(bucket, number)) not in replaced)
            for bucket in range(BUCKETS)
        ]

    def read(self) -> None:
        request = BeginReading("r", lease_seconds=86_400)
        as_of = self.random.choice([None, *self._completions()])
        if as_of is not None and as_of not in self._served():
            return
        lease = self._run(
            readers.begin(
                TESTER, self.history._database, TABLE, request, None if as_of is None else Micros(as_of)
            )
        )
        if lease.as_of is not None:
            self.leases[lease.lease_id] = parse_time(lease.as_of)

    def end_reading(self) -> None:
        if self.leases:
            lease_id = self.random.choice(sorted(self.leases))
            del self.leases[lease_id]
            assert self._run(readers.end(TESTER, self.history._database, TABLE, UUID(lease_id))).released

    def wait(self) -> None:
        self.history.pass_seconds(self.random.choice([1, HOUR // 2]))

    def clean(self) -> None:
        policy = self.random.choice(POLICIES)
        expected = None if policy.retain_versions else self._deletable(policy)
        retention = Retention(policy.retain_commits, policy.retain_hours, policy.retain_versions)
        clean = shown.clean(self._done(PlanClean(TABLE, retention, "w")))
        names = set() if clean is None or clean.plan is None else set(clean.plan.files_to_delete)
        assert expected is None or names == expected
        assert names.isdisjoint(self.cleaned), "what was planned is not planned again"
        self.cleaned |= names
        if clean is not None:
            self.cleans += 1
            time = parse_time(clean.requested_time)
            self._done(
                deletions.ReportDeletions(TABLE, time, [DeletedFile("", name) for name in sorted(names)])
            )
            self._done(
                instants.CompleteInstant(
                    TABLE,
                    time,
                )
            )

    # ------------------------------------------------------------------------------ invariants

    def check(self) -> None:
        """No file is cleaned that is served, held, or read by a pending write."""
        log = Log(self.admin, TABLE)
        needed = _names(log, max(log.times()))
        for at in {*self._served(), *self.savepoints.values(), *self.leases.values()}:
            needed |= _names(log, at)
        for time, groups in self.pending.items():
            needed |= _names(log, parse_time(time), set(groups) or None)
        assert self.cleaned.isdisjoint(needed)

    def _deletable(self, policy: CleanPolicy) -> set[str]:
        """By commits, or by hours: files that no reader saw since then, and that are not held."""
        log, before = Log(self.admin, TABLE), self._cleaned_before()
        if policy.retain_hours is not None:
            until: int | None = self.history.now_us - policy.retain_hours * HOUR * 1_000_000
        else:
            assert policy.retain_commits is not None
            writes = self._writes()
            until = writes[-policy.retain_commits] if len(writes) >= policy.retain_commits else None
        bound = max((moment for moment in (until, before) if moment is not None), default=None)
        if bound is None:
            return set()
        writers = [parse_time(time) for time, groups in self.pending.items() if not groups]
        bound = min([bound, *writers])
        times = [bound, *(moment for moment in log.times() if moment > bound)]
        kept = {
            name
            for at in (*times, *self.savepoints.values(), *self.leases.values())
            for name in _names(log, at)
        }
        planned = {file_id for groups in self.pending.values() for _, file_id in groups}
        ever = {name: file_id for at in log.times() for name, file_id in _files(log, at)}
        return {
            name for name, file_id in ever.items() if name not in kept | self.cleaned and file_id not in planned
        }

    def _served(self) -> list[int]:
        before = self._cleaned_before()
        return [moment for moment in self._completions() if before is None or moment >= before]

    def _cleaned_before(self) -> int | None:
        [[time]] = self._rows("SELECT chronolake.micros(cleaned_before) FROM chronolake.lake_table")
        return None if time is None else int(time)

    def _completions(self) -> list[int]:
        return self._times("coalesce(completion_time, undone_completion_time)")

    def _writes(self) -> list[int]:
        return self._times("completion_time", "action IN ('commit', 'deltacommit', 'replacecommit')")

    def _times(self, column: str, condition: str = "true") -> list[int]:
        rows = self._rows(
            f"SELECT chronolake.micros({column}) FROM chronolake.instant"
            f" WHERE {column} IS NOT NULL AND {condition} ORDER BY 1"
        )
        return [time for (time,) in rows]

    def _completion_of(self, requested_time: str) -> int:
        [[time]] = self._rows(
            "SELECT chronolake.micros(completion_time) FROM chronolake.instant"
            f" WHERE chronolake.micros(requested_time) = {parse_time(requested_time)}"
        )
        return int(time)

    def _state(self) -> Any:
        log = Log(self.admin, TABLE)
        return log.replayed(max(log.times()))

    # ------------------------------------------------------------------------------ how

    @property
    def _write_action(self) -> Action:
        return Action.COMMIT if self.type is TableType.COPY_ON_WRITE else Action.DELTACOMMIT

    def _group(self, bucket: int) -> Group:
        return "", bucket_file_id(bucket, self.generations[bucket])

    def _stat(self, time: str, group: Group, is_log: bool) -> WriteStat:
        log, base = f".{group[1]}_{time}.log.1_0-0-0", base_file_name(group[1], "0-0-0", time)
        return WriteStat(*group, log if is_log else base, 100, 10)

    def _begun(self, request: wire.BeginInstant) -> str:
        begun = shown.instant(self._done(instants.BeginInstant(TABLE, **asdict(request))))
        return begun.requested_time

    def _complete(self, time: str, stats: list[WriteStat], replaced: list[FileGroupName] | None = None) -> bool:
        """Complete an instant, or roll it back when it lost."""
        [answer] = self.history.send(
            instants.CompleteInstant(TABLE, parse_time(time), stats, replaced_file_groups=replaced or [])
        )
        if not isinstance(answer, Answer):
            self._roll_back(time)
        for (cancelled,) in self._rows(
            "SELECT chronolake.micros(requested_time) FROM chronolake.instant WHERE rollback_cause IS NOT NULL"
        ):
            self.pending.pop(format_time(cancelled), None)
        return isinstance(answer, Answer)

    def _roll_back(self, time: str) -> None:
        self._done(rollbacks.RollbackInstant(TABLE, parse_time(time), "w"))

    def _done(self, command: Command) -> AnyResult:
        self.history.pass_seconds(0.01)
        return self.history.done(command)

    def _run(self, query: Any) -> Any:
        return self.history._runner.run(query)

    def _rows(self, sql: str) -> list[Any]:
        return self.admin.execute(sql.encode()).fetchall()


def _files(log: Log, at: int) -> Iterator[tuple[str, str]]:
    """The names of the files that are seen as of a time, and their file ids."""
    for group, (base, logs) in log.replayed(at).seen("merged").items():
        yield from ((name, group[1]) for name in (base, *logs) if name is not None)


def _names(log: Log, at: int, groups: set[Group] | None = None) -> set[str]:
    file_ids = None if groups is None else {file_id for _, file_id in groups}
    return {name for name, file_id in _files(log, at) if file_ids is None or file_id in file_ids}


@pytest.mark.parametrize("seed", range(10))
def test_cleans_delete_exactly_the_unneeded_files(dsn: str, seed: int) -> None:
    with History(dsn) as history:
        table = Cleaned(history, seed)
        for _ in range(STEPS):
            table.step()
            table.check()
        table.admin.close()

    assert table.cleans
    assert tampering.verify(dsn).findings == []
