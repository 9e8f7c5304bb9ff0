"""The schedule of lease renewals, and the refusals that mean that a lease is lost. No I/O."""

from __future__ import annotations

from typing import Final

from chronolake import errors

RENEWALS_PER_LEASE: Final = 3
_RETRIES_PER_RENEWAL: Final = 4


def pause_seconds_of(lease_seconds: float, arrived: bool) -> float:
    """The pause before the next renewal: a third of the lease period, or less after a failed renewal."""
    period_seconds = lease_seconds / RENEWALS_PER_LEASE
    return period_seconds if arrived else period_seconds / _RETRIES_PER_RENEWAL


def lease_loss(refused: errors.RequestRefused) -> errors.RequestRefused | None:
    """``refused`` if it means that the lease is lost; None if it means that the instant has completed."""
    return None if isinstance(refused, errors.IllegalTransition) else refused
