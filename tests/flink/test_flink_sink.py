"""A Flink job over a real server: its rows are visible exactly once, whatever is killed, lost or repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import chronolake
import flink_orders
from tests.fix_server import ServerProcess
from tests.flink import written
from tests.flink.flink_jobs import AcknowledgementsGateway, Jobs
from tests.processes import wait_until

pytestmark = [pytest.mark.flink, pytest.mark.slow]

KEYS = 500
RATE = 2_000


def sized(seconds: int) -> tuple[int, tuple[str, ...]]:
    """A number of rows that takes at least so long, and the options of the job for it."""
    rows = seconds * RATE
    return rows, ("--rows", str(rows), "--rate", str(RATE), "--keys", str(KEYS))


def wait_for_checkpoints(table: chronolake.Table, count: int) -> None:
    """Wait until this number of further instants is visible."""
    before = len(written.completed_checkpoints(table))
    wait_until(lambda: len(written.completed_checkpoints(table)) >= before + count)


def test_a_job_becomes_visible_checkpoint_by_checkpoint(
    table: chronolake.Table, reaping: ServerProcess, jobs: Jobs
) -> None:
    rows, options = sized(8)
    job = jobs(reaping.url, *options)
    wait_for_checkpoints(table, 3)
    assert 0 < len(written.changes_in_logs(table)) < rows
    job.ends()

    checkpoints = written.completed_checkpoints(table)
    assert checkpoints == sorted(set(checkpoints))
    assert checkpoints[:3] == [-1, 1, 2]
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


def test_a_killed_task_restarts_alone_and_nothing_is_lost_or_doubled(
    client: chronolake.Client, table: chronolake.Table, reaping: ServerProcess, jobs: Jobs
) -> None:
    rows, options = sized(12)
    # Without an exchange between source and sink, each task is a region of its own for Flink. It flushes many
    # times between two barriers, so it has reported files that it drops.
    job = jobs(reaping.url, "--forward", "--flush-rows", "100", *options)
    for kills in (1, 2, 1):
        wait_for_checkpoints(table, 1)
        for _ in range(kills):
            job.kill_task(1)
    job.ends()

    assert written.begun_tasks(client, table) == {"0": 1, "1": 5}
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_all_tasks_restart_and_nothing_is_lost_or_doubled(
    client: chronolake.Client, table: chronolake.Table, reaping: ServerProcess, jobs: Jobs, unaligned: str
) -> None:
    rows, options = sized(10)
    job = jobs(reaping.url, *options, "--execution.checkpointing.unaligned.enabled", unaligned)
    job.kill_task(0)
    wait_for_checkpoints(table, 2)
    job.kill_task(1)
    wait_for_checkpoints(table, 1)
    job.kill_task(0)
    job.ends()

    assert written.begun_tasks(client, table) == {"0": 4, "1": 4}
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


def test_a_server_that_is_killed_and_started_again_fails_no_task(
    client: chronolake.Client, table: chronolake.Table, reaping: ServerProcess, jobs: Jobs
) -> None:
    rows, options = sized(10)
    job = jobs(reaping.url, *options)
    for _ in range(2):
        wait_for_checkpoints(table, 2)
        reaping.kill()
        reaping.start()
    job.ends()

    assert written.begun_tasks(client, table) == {"0": 1, "1": 1}
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


def test_a_killed_job_is_restored_with_another_number_of_tasks_while_acknowledgements_fail(
    table: chronolake.Table, reaping: ServerProcess, jobs: Jobs, tmp_path: Path
) -> None:
    rows, options = sized(25)
    chance = random.Random(1)
    with AcknowledgementsGateway(reaping.url, seed=1) as gateway:
        job = jobs(gateway.url, *options, "--tasks", "2")
        for tasks in (3, 1, 2):
            wait_for_checkpoints(table, 2)
            if chance.random() < 0.5:
                job.kill_task(0)
            job.kill()
            restored = str(flink_orders.newest_checkpoint(tmp_path / "checkpoints"))
            job = jobs(gateway.url, *options, "--tasks", str(tasks), "--restore", restored)
        job.ends()

    assert gateway.lost
    assert gateway.repeated
    [stream] = table.streams()
    assert stream.epoch == 4
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


def test_refused_acknowledgements_come_again_after_the_tasks_have_failed(
    client: chronolake.Client, table: chronolake.Table, reaping: ServerProcess, jobs: Jobs
) -> None:
    rows, options = sized(10)
    with AcknowledgementsGateway(reaping.url, seed=2) as gateway:
        job = jobs(gateway.url, *options)
        wait_for_checkpoints(table, 1)
        # Flink gives an acknowledgement up after eleven tries, and then the task fails.
        gateway.refusals = 40
        wait_until(lambda: not gateway.refusals)
        job.ends()

    assert max(written.begun_tasks(client, table).values()) > 1
    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS)


def test_a_job_that_was_thought_dead_changes_nothing_any_more(
    table: chronolake.Table, reaping: ServerProcess, jobs: Jobs, tmp_path: Path
) -> None:
    rows, options = sized(10)
    zombie = jobs(reaping.url, *options)
    wait_for_checkpoints(table, 2)
    zombie.freeze()
    job = jobs(
        reaping.url, *options, "--restore", str(flink_orders.newest_checkpoint(tmp_path / "checkpoints"))
    )
    wait_for_checkpoints(table, 2)
    zombie.thaw()
    wait_until(lambda: "stream-fenced" in zombie.log())
    job.ends()
    zombie.kill()

    written.check_exactly_once(table, reaping, rows=rows, keys=KEYS, late_files=True)
