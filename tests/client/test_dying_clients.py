"""Clients killed while they delete the files of a write: the next client finishes, and no file is left."""

from __future__ import annotations

import subprocess
import sys
import typing

import msgspec
import pytest

import chronolake
from chronolake import State, WriteStat
from tests.client.dying import Moment, Task
from tests.client.stored import Stored, file_of, in_storage, written
from tests.fix_stores import Store

FILES = 25
MOMENTS: tuple[Moment, ...] = typing.get_args(Moment)


def killed(task: Task) -> None:
    """Run the task in a process that is killed at its moment."""
    command = [sys.executable, "-m", "tests.client.dying", msgspec.json.encode(task).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()


def task_of(
    stored: Stored, store: Store, url: str, write: chronolake.Write, stats: list[WriteStat], moment: Moment
) -> Task:
    return Task(url, stored.table.name, write.requested_time, store.options, stats, moment)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rollback_is_finished_after_its_client_was_killed(
    stored: Stored, store: Store, server_url: str, moment: Moment
) -> None:
    kept = stored.publish(3)
    write = stored.table.begin(writer="job")
    stats = [written(stored, write, 0, attempt) for attempt in range(FILES)]
    killed(task_of(stored, store, server_url, write, [], moment))
    assert write.refresh().state is State.ROLLED_BACK
    assert stored.table.finish_rollbacks(writer="another") == []

    [rollback] = stored.table.finish_rollbacks(writer="job")

    assert (rollback.target, rollback.state) == (write.requested_time, State.COMPLETED)
    assert set(stored.table.deletions(write.requested_time)) == set(map(file_of, stats))
    [path] = in_storage(stored)
    assert kept.requested_time in path
    assert stored.orphans() == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_write_is_published_after_its_client_was_killed_while_it_reconciled(
    stored: Stored, store: Store, server_url: str, moment: Moment
) -> None:
    write = stored.table.begin(writer="job")
    stats = [written(stored, write, bucket, attempt) for bucket in (0, 1) for attempt in range(FILES)]
    winners, losers = [stats[0], stats[FILES]], {*stats[1:FILES], *stats[FILES + 1 :]}
    killed(task_of(stored, store, server_url, write, winners, moment))
    assert write.refresh().state is State.INFLIGHT

    stored.table.write(write.requested_time).complete(winners)

    assert in_storage(stored) == {file_of(stat).path for stat in winners}
    assert set(stored.table.deletions(write.requested_time)) == set(map(file_of, losers))
    assert stored.orphans() == []
