"""Exactly once under random schedules of a simulated engine; and planted bugs, which the schedules find."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from chronolake_metastore.domain import checkpoints, streams
from chronolake_metastore.domain.checkpoints import CompleteCheckpoints
from chronolake_metastore.domain.events import CheckpointAcknowledged, Event, ReportOfTask
from chronolake_metastore.domain.streams import Checkpoint, Stream, TaskReports
from chronolake_metastore.domain.tables import Table
from chronolake_model import streams as wire
from chronolake_model.instants import WriteSummary
from tests.examples import examples
from tests.streams.engine import Engine, Refused
from tests.streams.in_memory import InMemory

SEEDS_OF_A_BUG = range(1_000, 1_060)


def run(seed: int, *, is_ahead: bool = False) -> None:
    engine = Engine(InMemory(), seed, is_ahead=is_ahead)
    engine.run()
    assert not engine.orphans()


def finds(*, is_ahead: bool = False) -> bool:
    """Whether one of some schedules shows that something is wrong."""
    for seed in SEEDS_OF_A_BUG:
        try:
            run(seed, is_ahead=is_ahead)
        except (AssertionError, Refused):
            return True
    return False


@pytest.mark.parametrize("seed", range(0, examples(1_600), 25))
def test_each_record_is_visible_exactly_once_whatever_fails(seed: int) -> None:
    for number in range(seed, seed + 25):
        run(number)


def test_completing_the_checkpoint_that_is_acknowledged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = checkpoints.acknowledge

    def with_its_own(
        table: Table, stream: Stream, command: CompleteCheckpoints
    ) -> tuple[CheckpointAcknowledged | None, list[tuple[int, Checkpoint]]]:
        number = command.checkpoint
        assert number is not None
        return acknowledge(table, stream, msgspec.structs.replace(command, checkpoint=number + 1))

    monkeypatch.setattr(checkpoints, "acknowledge", with_its_own)
    assert finds()


def test_replacing_reports_instead_of_merging_them_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = streams._reported

    def replacing(
        stream: Stream, event: Event, report: ReportOfTask, summary: WriteSummary
    ) -> dict[str, object]:
        if not summary.files:
            return reported(stream, event, report, summary)
        emptied = {
            number: msgspec.structs.replace(checkpoint, tasks={**checkpoint.tasks, report.task: TaskReports()})
            if checkpoint.requested_time == event.instant
            else checkpoint
            for number, checkpoint in stream.checkpoints.items()
        }
        return reported(msgspec.structs.replace(stream, checkpoints=emptied), event, report, summary)

    monkeypatch.setattr(streams, "_reported", replacing)
    assert finds()


def test_missing_fencing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "refuse_other_epoch", lambda table, stream, epoch: None)
    monkeypatch.setattr(checkpoints, "_refuse_task", lambda table, stream, epoch, task, attempt: None)
    assert finds()


def test_a_restarted_task_that_drops_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_without_task", lambda checkpoint, task: checkpoint)
    assert finds()


def test_a_restart_of_one_task_that_drops_the_files_of_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        streams, "_without_task", lambda checkpoint, task: msgspec.structs.replace(checkpoint, tasks={})
    )
    assert finds()


def test_a_restore_that_rolls_nothing_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(stream: Stream | None, restored_checkpoint: int | None) -> Sequence[Checkpoint]:
        return []

    monkeypatch.setattr(streams, "behind", nothing)
    assert finds()


def test_tasks_that_ask_with_the_last_complete_checkpoint_are_found() -> None:
    assert finds(is_ahead=True)


def test_the_tasks_of_a_checkpoint_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "TASKS_MAX", 2)
    coordinator = InMemory()
    coordinator.open("open", wire.OpenStream("w"))
    time = coordinator.instant("instant", wire.RequestInstant(1, "0", -1))

    def report(task: str) -> None:
        body = wire.ReportWriteMetadata(1, task, -1, requested_time=time, last_batch=True)
        coordinator.report(f"report {task}", body)

    report("0")
    report("1")
    with pytest.raises(Refused, match="invalid-write-stat"):
        report("2")
    report("1")


def test_the_tasks_that_restart_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "TASKS_MAX", 1)
    coordinator = InMemory()
    coordinator.open("open", wire.OpenStream("w"))
    assert [coordinator.restart(f"again {number}", wire.RestartTask(1, "0")) for number in range(2)] == [1, 2]
    with pytest.raises(Refused, match="invalid-write-stat"):
        coordinator.restart("another", wire.RestartTask(1, "1"))
