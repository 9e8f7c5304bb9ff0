# Generated from chronolake/_async/reading.py by tools/async_to_sync.py: do not edit.
"""Reading a table under a lease: until the lease ends, no clean deletes files of its completion time."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Final, Self

from chronolake import calls, errors
from chronolake._sync.lease import LeaseRenewal
from chronolake._sync.transport import Transport
from chronolake.calls.base import Call
from chronolake_model import operations
from chronolake_model.readers import ReaderLease, RenewReading
from chronolake_model.times import Moment, digits_of

END_SECONDS: Final = 10.0
"""The time for which the release of a lease is retried. Without a release the lease expires."""


class Reading:
    """A reader's lease on a completion time. Threads may share it.

    As a context manager it renews the lease in the background, and releases it at the end. Otherwise call
    ``renew`` before the lease ends, or ``start_renewing``.
    """

    def __init__(self, transport: Transport, lease: ReaderLease) -> None:
        self._transport = transport
        self._lease = lease
        self._renewal: LeaseRenewal | None = None

    @property
    def as_of(self) -> str | None:
        """The completion time to read as of; None if no instant had completed: there is nothing to read."""
        return self._lease.as_of

    @property
    def lease(self) -> ReaderLease:
        """The lease as of the last answer."""
        return self._lease

    @property
    def lost(self) -> errors.RequestRefused | None:
        """The error that stopped the renewal: the lease has ended, or the table was dropped. Else None."""
        return self._renewal.lost if self._renewal else None

    def renew(self, lease_seconds: int | None = None, *, as_of: Moment | None = None) -> ReaderLease:
        """Renew the lease from now, for ``lease_seconds`` or the same period as before.

        With ``as_of``, a lease that ``follows`` the changes holds the times from there on; it never goes back.
        Raises ``ReaderNotFound`` when it has ended: a clean may have deleted files of that time.
        """
        self._lease = self._transport.send(_renewal(self._lease, lease_seconds, as_of))
        return self._lease

    def start_renewing(self) -> None:
        """Renew the lease in the background until ``stop_renewing``."""
        self._renewal = LeaseRenewal(
            self._renew, lease_seconds=self._lease.lease_seconds, name=self._lease.lease_id
        )
        self._renewal.start()

    def stop_renewing(self) -> None:
        """Leave the lease without releasing it: ``Table.resume_reading`` takes it up until it expires."""
        if self._renewal is not None:
            self._renewal.stop()

    def end(self) -> bool:
        """Release the lease; False when it had ended before."""
        call = calls.call(operations.files.END_READING, self._lease.table, self._lease.lease_id)
        return self._transport.send(call).released

    def __enter__(self) -> Self:
        self.start_renewing()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop_renewing()
        call = calls.call(operations.files.END_READING, self._lease.table, self._lease.lease_id)
        with contextlib.suppress(errors.ChronolakeError):
            self._transport.send(call, retry_seconds=END_SECONDS)

    def _renew(self) -> None:
        # No retries here: the renewal loop decides when to try again.
        self._lease = self._transport.send(_renewal(self._lease), retry_seconds=0)


def _renewal(
    lease: ReaderLease, lease_seconds: int | None = None, as_of: Moment | None = None
) -> Call[ReaderLease]:
    body = RenewReading(lease_seconds, None if as_of is None else digits_of(as_of))
    return calls.call(operations.files.RENEW_READING, lease.table, lease.lease_id, body=body)
