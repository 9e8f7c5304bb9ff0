"""A table read under a lease: as long as it runs, no clean takes the files of that time away."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from chronolake import calls, errors
from chronolake._lease import LeaseRenewal, pause_seconds_of
from chronolake._transport import AsyncTransport, Transport, default_writer
from chronolake_model.readers import BeginReading, ReaderLease, RenewReading
from chronolake_model.times import Moment, digits_of

END_SECONDS = 10.0
"""How long ending a lease is tried, which is only a courtesy: it ends in any case."""


class Reading:
    """A reader's lease of a completion time. Threads may share it.

    As a context manager it renews the lease in the background, and gives it up at the end. Outside of one
    nothing is renewed: call ``renew`` before the lease ends.
    """

    def __init__(self, transport: Transport, lease: ReaderLease) -> None:
        self._transport = transport
        self._lease = lease
        self._renewal: LeaseRenewal | None = None

    @property
    def as_of(self) -> str | None:
        """The completion time to read as of; None when nothing had completed: there is nothing to read."""
        return self._lease.as_of

    @property
    def lease(self) -> ReaderLease:
        """The lease as last heard of."""
        return self._lease

    @property
    def lost(self) -> errors.RequestRefused | None:
        """Why the renewal stopped: the lease has ended, or the table was dropped. None while all is well."""
        return self._renewal.lost if self._renewal else None

    def renew(self, lease_seconds: int | None = None) -> ReaderLease:
        """Renew the lease from now on, for ``lease_seconds`` or for as long as before.

        Raises ``ReaderNotFound`` when it has ended, and a clean may have taken its files.
        """
        self._lease = self._transport.send(_renewal(self._lease, lease_seconds))
        return self._lease

    def end(self) -> bool:
        """Give the lease up; whether there still was one."""
        return self._transport.send(calls.readers.end(self._lease.table, self._lease.lease_id)).released

    def __enter__(self) -> Self:
        self._renewal = LeaseRenewal(
            self._renew, lease_seconds=self._lease.lease_seconds, name=self._lease.lease_id
        )
        self._renewal.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            self._renewal.stop()
        call = calls.readers.end(self._lease.table, self._lease.lease_id)
        with contextlib.suppress(errors.ChronolakeError):
            self._transport.send(call, retry_seconds=END_SECONDS)

    def _renew(self) -> None:
        # One try: the renewal's own loop decides when to try again.
        self._lease = self._transport.send(_renewal(self._lease), retry_seconds=0)


class AsyncReading:
    """As ``Reading``, with ``async with`` and ``await``. The lease is renewed by a task."""

    def __init__(self, transport: AsyncTransport, lease: ReaderLease) -> None:
        self._transport = transport
        self._lease = lease
        self._renewal: asyncio.Task[None] | None = None
        self._lost: errors.RequestRefused | None = None

    @property
    def as_of(self) -> str | None:
        """As ``Reading.as_of``."""
        return self._lease.as_of

    @property
    def lease(self) -> ReaderLease:
        """The lease as last heard of."""
        return self._lease

    @property
    def lost(self) -> errors.RequestRefused | None:
        """As ``Reading.lost``."""
        return self._lost

    async def renew(self, lease_seconds: int | None = None) -> ReaderLease:
        """As ``Reading.renew``."""
        self._lease = await self._transport.send(_renewal(self._lease, lease_seconds))
        return self._lease

    async def end(self) -> bool:
        """As ``Reading.end``."""
        call = calls.readers.end(self._lease.table, self._lease.lease_id)
        return (await self._transport.send(call)).released

    async def __aenter__(self) -> Self:
        self._renewal = asyncio.create_task(self._keep(), name=f"chronolake-lease-{self._lease.lease_id}")
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        task, self._renewal = self._renewal, None
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        call = calls.readers.end(self._lease.table, self._lease.lease_id)
        with contextlib.suppress(errors.ChronolakeError):
            await self._transport.send(call, retry_seconds=END_SECONDS)
        if not task.cancelled() and (bug := task.exception()) is not None:
            raise bug

    async def _keep(self) -> None:
        arrived = True
        while True:
            await asyncio.sleep(pause_seconds_of(self._lease.lease_seconds, arrived))
            try:
                self._lease = await self._transport.send(_renewal(self._lease), retry_seconds=0)
                arrived = True
            except errors.RequestRefused as refused:
                self._lost = refused
                return
            except errors.ChronolakeError:
                arrived = False


def begin_call(
    table: str, as_of: Moment | None, reader: str | None, lease_seconds: int
) -> calls.base.Call[ReaderLease]:
    """Take a lease, in the name of this process unless given."""
    asked = BeginReading(reader or default_writer(), None if as_of is None else digits_of(as_of), lease_seconds)
    return calls.readers.begin(table, asked)


def _renewal(lease: ReaderLease, lease_seconds: int | None = None) -> calls.base.Call[ReaderLease]:
    return calls.readers.renew(lease.table, lease.lease_id, RenewReading(lease_seconds))
