"""Bounds of a stream's buffer."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain import checkpoints
from chronolake_model import streams as wire
from tests.streams.engine import Refused
from tests.streams.in_memory import InMemory


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
