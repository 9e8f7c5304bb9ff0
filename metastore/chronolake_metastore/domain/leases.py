"""Leases: an instant whose writer is silent for longer than its lease may be rolled back by any client."""

from __future__ import annotations

from chronolake_metastore.domain.commands import InstantCommand
from chronolake_metastore.domain.events import LeaseRenewed
from chronolake_metastore.domain.instants import (
    PENDING,
    Instant,
    illegal,
    lease_end,
    refuse_another,
    refuse_unless,
)
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros


class RenewLease(InstantCommand, frozen=True):
    lease_seconds: int | None = None
    writer: str | None = None


def renew(table: Table, instant: Instant, command: RenewLease, now: Micros) -> LeaseRenewed:
    """Renew the lease of a pending instant from ``now``, by the steady clock.

    Raises ``IllegalTransition``, ``InstantRolledBack``, or ``LeaseLive`` when another has taken it over. A
    lease that ended without a rollback is renewed too: its writer is alive, and the instant is still pending.
    """
    refuse_unless(table, instant, PENDING, "keep a lease")
    if instant.lease_expires_at is None:
        raise illegal(table, instant, "its plan waits and has no lease; take it inflight to execute it")
    refuse_another(instant, command.writer)
    seconds = command.lease_seconds or instant.lease_seconds
    return LeaseRenewed(lease_seconds=seconds, lease_expires_at=lease_end(now, seconds))
