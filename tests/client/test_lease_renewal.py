"""The renewal of a lease in the background: it survives outages, and ends when the server refuses it."""

from __future__ import annotations

import threading

import pytest

from chronolake import errors
from chronolake._sync.lease import LeaseRenewal
from chronolake_model.problems import Problem, ProblemCode

WAIT_SECONDS = 10.0


def refused(code: ProblemCode) -> errors.ChronolakeError:
    return errors.error_of(
        Problem(type="about:blank", title=code.title, status=code.status, code=code, detail="")
    )


class Renewals:
    """Counts renewals; each raises the next of ``failures``, while there are any."""

    def __init__(self, enough: int, failures: list[errors.ChronolakeError] | None = None) -> None:
        self.count = 0
        self.reached = threading.Event()
        self._enough = enough
        self._failures = failures or []

    def __call__(self) -> None:
        self.count += 1
        if self.count >= self._enough:
            self.reached.set()
        if self._failures:
            raise self._failures.pop(0)


def test_it_renews_periodically_until_stopped() -> None:
    renewals = Renewals(enough=3)
    renewal = LeaseRenewal(renewals, lease_seconds=0.03, name="t")

    renewal.start()
    assert renewals.reached.wait(WAIT_SECONDS)
    renewal.stop()

    count = renewals.count
    assert not any(thread.name == "chronolake-lease-t" for thread in threading.enumerate())
    assert renewals.count == count
    assert renewal.lost is None


def test_an_outage_does_not_end_it() -> None:
    outage = [
        errors.ConnectionFailed("no"),
        refused(ProblemCode.OVERLOADED),
        refused(ProblemCode.INTERNAL_ERROR),
    ]
    renewals = Renewals(enough=5, failures=outage)
    renewal = LeaseRenewal(renewals, lease_seconds=0.03, name="t")

    renewal.start()
    assert renewals.reached.wait(WAIT_SECONDS)
    renewal.stop()

    assert renewal.lost is None


@pytest.mark.parametrize("code", [ProblemCode.INSTANT_ROLLED_BACK, ProblemCode.TABLE_NOT_FOUND])
def test_it_ends_and_reports_it_when_the_instant_is_gone(code: ProblemCode) -> None:
    renewals = Renewals(enough=1, failures=[refused(code)])
    renewal = LeaseRenewal(renewals, lease_seconds=0.03, name="t")

    renewal.start()
    renewal._task.join(WAIT_SECONDS)

    assert renewals.count == 1
    assert renewal.lost is not None
    assert renewal.lost.code == code


def test_an_instant_that_completed_elsewhere_is_not_lost() -> None:
    renewals = Renewals(enough=1, failures=[refused(ProblemCode.ILLEGAL_TRANSITION)])
    renewal = LeaseRenewal(renewals, lease_seconds=0.03, name="t")

    renewal.start()
    renewal._task.join(WAIT_SECONDS)

    assert renewals.count == 1
    assert renewal.lost is None


def test_stopping_does_not_wait_for_a_renewal_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronolake._concurrency.blocking.JOIN_SECONDS", 0.01)
    hanging, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        go_on.wait(WAIT_SECONDS)
        raise refused(ProblemCode.INSTANT_ROLLED_BACK)

    renewal = LeaseRenewal(hang, lease_seconds=0.03, name="t")
    renewal.start()
    assert hanging.wait(WAIT_SECONDS)

    renewal.stop()
    go_on.set()
    renewal._task.join(WAIT_SECONDS)

    assert renewal.lost is None
