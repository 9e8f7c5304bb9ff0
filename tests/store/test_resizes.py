"""Resizes in the log: their replay, restores, groups of commands, and random histories."""

from __future__ import annotations

import random

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import instants
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.queries import file_groups as group_queries, tables as table_queries
from chronolake_model import instants as wire
from chronolake_model.file_names import bucket_of, generation_of
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.slices import BucketName, FindFileGroups, FoundFileGroup
from chronolake_model.tables import Table
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action
from tests.store import shown
from tests.store.shown import TESTER
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, restore, stat


def definition(history: TablesOfTypes, table: str) -> Table:
    return history._runner.run(table_queries.get(TESTER, history._database, table))


def live(history: TablesOfTypes, table: str) -> list[FileGroupName]:
    return [FileGroupName("", file_id) for file_id in history.seen(table)]


def resizing(history: TablesOfTypes, table: str, buckets: int) -> wire.Instant:
    return history.start(table, Action.CLUSTERING, plan=NewPlan(live(history, table), buckets=buckets))


def resize_of(instant: wire.Instant, *files: tuple[int, int]) -> instants.CompleteInstant:
    """The completion of a resize that writes these buckets and generations."""
    assert instant.plan is not None
    replaced = tuple(instant.plan.file_groups)
    stats = [stat(instant, bucket, generation=generation) for bucket, generation in files]
    # Files have ten records here: the others count as deleted.
    stats = [msgspec.structs.replace(written, deletes=10 * len(replaced)) for written in stats]
    command = completion(instant, *stats, replaced=replaced)
    return msgspec.structs.replace(command, buckets=instant.plan.buckets)


def test_a_resize_a_restore_and_another_resize_replay_to_the_same_state(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 0, 1)
    savepoint = history.save(COW)
    done = history.answer(resize_of(resizing(history, COW, 8), (0, 1), (5, 0)))
    written = history.written(COW, Action.COMMIT, 7)
    restored = history.answer(restore(history, savepoint))
    history.written(COW, Action.COMMIT, 0)
    again = history.answer(resize_of(resizing(history, COW, 2), (0, 1), (1, 1)))

    table = definition(history, COW)
    times = [first, done, written, restored, again]
    assert [table.buckets_as_of(instant.completion_time) for instant in times] == [4, 8, 8, 4, 2]
    assert table.buckets_as_of(None) == 2
    assert live(history, COW) == [group(0, 1), group(1, 1)]


@pytest.mark.parametrize("resize_first", [True, False])
def test_in_one_group_of_commands_a_resize_sees_what_came_before(
    history: TablesOfTypes, *, resize_first: bool
) -> None:
    history.written(MOR, Action.DELTACOMMIT, 0)
    opening = history.start(MOR, Action.DELTACOMMIT)
    resize = resize_of(resizing(history, MOR, 8), (0, 1))
    commands = [completion(opening, stat(opening, 3)), resize]
    first, second = history.send(*(reversed(commands) if resize_first else commands))
    assert isinstance(first, Answer)
    assert isinstance(second, errors.WriteConflict)
    assert definition(history, MOR).index.buckets == (8 if resize_first else 4)


def test_a_resize_that_begins_in_one_group_of_commands_with_a_write_names_its_file_group(
    history: TablesOfTypes,
) -> None:
    writing = history.start(COW, Action.COMMIT)
    plan = NewPlan(buckets=8)
    begin = instants.BeginInstant(COW, "w", Action.CLUSTERING, plan=plan)
    written, refused = history.send(completion(writing, stat(writing, 3)), begin)
    assert isinstance(written, Answer)
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["file_groups"] == [{"partition_path": "", "file_id": group(3).file_id}]


class Workload:
    """Random writes, resizes, savepoints and restores of a table, as writers that know the rules do them."""

    def __init__(self, history: TablesOfTypes, table: str, draws: random.Random) -> None:
        self._history, self._table, self._draws = history, table, draws
        self._pending: list[wire.Instant] = []
        self._savepoints: list[wire.Instant] = []
        self.seen: dict[str, tuple[int, list[FileGroupName]]] = {}
        """By completion time, the number of buckets and the live file groups just after it."""

    def step(self) -> None:
        begin, finish = [self._write, self._write, self._resize], [self._finish] * 3
        self._draws.choice([*begin, *finish, self._save, self._restore])()
        present = definition(self._history, self._table)
        assert all(bucket_of(name.file_id) < present.index.buckets for name in live(self._history, self._table))

    def _write(self) -> None:
        action = Action.COMMIT if self._table == COW else Action.DELTACOMMIT
        self._pending.append(self._history.start(self._table, action))

    def _resize(self) -> None:
        present = definition(self._history, self._table).index.buckets
        buckets = self._draws.choice([number for number in (1, 2, 4, 8) if number != present])
        plan = NewPlan(live(self._history, self._table), buckets=buckets)
        [begun] = self._history.send(instants.BeginInstant(self._table, "w", Action.CLUSTERING, plan=plan))
        if isinstance(begun, Answer):
            self._pending.append(shown.instant(begun.result))
        else:
            assert isinstance(begun, errors.WriteConflict), begun

    def _finish(self) -> None:
        if not self._pending:
            return
        instant = self._pending.pop(self._draws.randrange(len(self._pending)))
        self._history.pass_seconds(1)
        [outcome] = self._history.send(self._completion(instant))
        if isinstance(outcome, Answer):
            time = shown.instant(outcome.result).completion_time
            assert time is not None
            self.seen[time] = (
                definition(self._history, self._table).index.buckets,
                live(self._history, self._table),
            )
        elif not isinstance(outcome, errors.InstantRolledBack):
            assert isinstance(outcome, errors.WriteConflict | errors.InvalidPlan), outcome
            self._history.undo(instant)

    def _completion(self, instant: wire.Instant) -> instants.CompleteInstant:
        if instant.plan is not None and instant.plan.buckets is not None:
            return resize_of(instant, *_next_groups(self._history, self._table, instant))
        return completion(instant, _file_of(self._history, self._table, instant, self._draws))

    def _save(self) -> None:
        if self.seen:
            self._savepoints.append(self._history.save(self._table))

    def _restore(self) -> None:
        if self._savepoints:
            self._history.done(restore(self._history, self._savepoints[-1]))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_files_and_number_of_buckets_agree_at_each_moment_of_a_random_history(
    history: TablesOfTypes, seed: int
) -> None:
    draws = random.Random(seed)
    table = draws.choice([COW, MOR])
    workload = Workload(history, table, draws)
    for _ in range(25):
        workload.step()
    present = definition(history, table)
    for time, (buckets, groups) in workload.seen.items():
        assert present.buckets_as_of(time) == buckets
        assert [FileGroupName("", file_id) for file_id in history.seen(table, time)] == groups


def _next_groups(history: TablesOfTypes, table: str, instant: wire.Instant) -> list[tuple[int, int]]:
    assert instant.plan is not None
    assert instant.plan.buckets is not None
    return [_next_group(history, table, bucket, instant) for bucket in {0, instant.plan.buckets - 1}]


def _next_group(history: TablesOfTypes, table: str, bucket: int, instant: wire.Instant) -> tuple[int, int]:
    """The bucket, and the generation of the file group that replaces its last one as of the begin."""
    entry = _found(history, table, bucket, instant)
    last = entry.replaced if entry.slice is None else entry.slice.file_id
    return bucket, 0 if last is None else generation_of(last) + 1


def _file_of(history: TablesOfTypes, table: str, instant: wire.Instant, draws: random.Random) -> WriteStat:
    """A file in any bucket, by the number as of the begin."""
    assert instant.buckets is not None
    bucket = draws.randrange(instant.buckets)
    entry = _found(history, table, bucket, instant)
    if entry.slice is None:
        return stat(instant, bucket, generation=_next_group(history, table, bucket, instant)[1])
    return stat(instant, bucket, log=table == MOR, generation=generation_of(entry.slice.file_id))


def _found(history: TablesOfTypes, table: str, bucket: int, instant: wire.Instant) -> FoundFileGroup:
    body = FindFileGroups(buckets=[BucketName("", bucket)])
    time = parse_time(instant.requested_time)
    answer = history._runner.run(group_queries.find(TESTER, history._database, table, body, time))
    return answer.file_groups[0]
