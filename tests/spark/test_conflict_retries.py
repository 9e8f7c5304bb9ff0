"""The retries of a write that lost a conflict."""

from __future__ import annotations

import time

import pytest

from chronolake.errors import WriteConflict
from chronolake.writing import conflict_retries
from chronolake.writing.choices import OnConflict


class Writer:
    """Loses a number of conflicts, then writes."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.retries: list[int] = []

    def write(self, retries: int) -> str:
        self.retries.append(retries)
        if len(self.retries) <= self.conflicts:
            raise WriteConflict("the instant 1 has changed them; roll back, read the table again")
        return "written"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_a_write_that_lost_is_repeated_after_growing_pauses_with_its_number(pauses: list[float]) -> None:
    writer = Writer(conflicts=conflict_retries.RETRIES_MAX)
    assert conflict_retries.run(writer.write, "retry") == "written"
    assert writer.retries == list(range(conflict_retries.RETRIES_MAX + 1))
    assert all(0.1 <= pause <= 10 for pause in pauses)
    assert pauses[-1] > pauses[0]


def test_a_write_that_always_loses_is_given_up(pauses: list[float]) -> None:
    writer = Writer(conflicts=1_000)
    with pytest.raises(WriteConflict, match="Nothing was written: all 10 retries lost too"):
        conflict_retries.run(writer.write, "retry")
    assert len(writer.retries) == len(pauses) + 1 == conflict_retries.RETRIES_MAX + 1


def test_unless_asked_for_nothing_is_repeated(pauses: list[float]) -> None:
    writer = Writer(conflicts=1)
    with pytest.raises(WriteConflict, match=r"^the instant 1 has changed them\. Nothing was written: run"):
        conflict_retries.run(writer.write, "fail")
    assert (writer.retries, pauses) == ([0], [])


def test_another_policy_is_refused() -> None:
    policy: OnConflict = "later"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="on_conflict is one of fail, retry, not 'later'"):
        conflict_retries.run(Writer(0).write, policy)
