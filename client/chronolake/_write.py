"""One write: an instant from its begin to its completion or rollback, and the lease in between."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from chronolake import _calls, errors
from chronolake._calls import Call
from chronolake._lease import LeaseRenewal
from chronolake._transport import Transport, new_key
from chronolake_model.files import WriteStat
from chronolake_model.instants import CompleteInstant, Heartbeat, Instant, RollbackInstant
from chronolake_model.vocabulary import State

_REASON_CHARS_MAX = 4_096
_BEST_EFFORT_SECONDS = 10.0

_Answer = TypeVar("_Answer")


class Write:
    """An instant in the hands of a writer. Threads may share it.

    As a context manager it renews its lease in the background, completes when the block ends, and rolls back
    when the block raises::

        with table.begin(operation=Operation.UPSERT) as write:
            write.add(stat)

    Outside of one nothing is renewed: call ``heartbeat`` before the lease ends.
    """

    def __init__(self, transport: Transport, instant: Instant) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._instant = instant
        self._stats: list[WriteStat] = []
        self._unanswered: dict[Call[Any], str] = {}
        self._renewal: LeaseRenewal | None = None
        self._rolled_back_here = False

    @property
    def table(self) -> str:
        """The table's name."""
        return self._instant.table

    @property
    def requested_time(self) -> str:
        """The instant's requested time, which names it."""
        return self._instant.requested_time

    @property
    def instant(self) -> Instant:
        """The instant as last heard of; ``refresh`` asks again."""
        return self._instant

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        with self._lock:
            return tuple(self._stats)

    @property
    def lost(self) -> errors.RequestRefused | None:
        """Why the renewal stopped: the instant was rolled back, or its table dropped. None while all is well.

        A long-running writer looks here to stop early; ``complete`` raises it.
        """
        return self._renewal.lost if self._renewal else None

    def add(self, stat: WriteStat) -> None:
        """Remember a written file, to be published by ``complete``."""
        with self._lock:
            self._stats.append(stat)

    def inflight(self) -> Instant:
        """Go from requested to inflight. Raises ``IllegalTransition``, ``InstantRolledBack``."""
        return self._learn(self._command(_calls.to_inflight(self.table, self.requested_time)))

    def complete(
        self, write_stats: Iterable[WriteStat] = (), extra_metadata: Mapping[str, str] | None = None
    ) -> Instant:
        """Publish the files that were added and ``write_stats``, all at once.

        Raises ``WriteConflict`` (another instant wrote the same file groups first: roll back, write anew),
        ``InstantRolledBack`` (stop), ``IllegalTransition``, ``InvalidWriteStat``. After ``ConnectionFailed``
        or ``ServerUnavailable`` the outcome is not known: the same call once more gets it, for it is sent
        under the same idempotency key.
        """
        if self.lost is not None:
            raise self.lost
        body = CompleteInstant([*self.stats, *write_stats], dict(extra_metadata or {}))
        call = _calls.complete_instant(self.table, self.requested_time, body)
        return self._learn(self._command(call))

    def rollback(self, reason: str = "") -> Instant:
        """Give the instant up: nothing that it wrote will be seen.

        Raises ``IllegalTransition`` when it has completed: it stays published, keep its files.
        """
        return self._rollback(reason, retry_seconds=None)

    def heartbeat(self, lease_seconds: int | None = None) -> Instant:
        """Renew the lease from now on, for ``lease_seconds`` or for as long as before.

        Raises ``InstantRolledBack`` when somebody gave the instant up after the lease had ended.
        """
        call = _calls.heartbeat(self.table, self.requested_time, Heartbeat(lease_seconds))
        return self._learn(self._transport.send(call))

    def refresh(self) -> Instant:
        """Ask how the instant stands now."""
        return self._learn(self._transport.send(_calls.instant(self.table, self.requested_time)))

    def __enter__(self) -> Self:
        self._renewal = LeaseRenewal(
            self._renew, lease_seconds=self._instant.lease_seconds, name=self.requested_time
        )
        self._renewal.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._give_up(exc)
        elif self._instant.state is not State.COMPLETED and not self._rolled_back_here:
            self._finish()
        self._stop_renewal()

    def _finish(self) -> None:
        """Complete; what the server refuses is rolled back, for nobody will mend it any more.

        The lease is renewed meanwhile: publishing many files, or waiting for a server that restarts, may take
        longer than what is left of it. When the outcome is unknown, nothing is rolled back.
        """
        try:
            self.complete()
        except errors.RequestRefused as refused:
            self._give_up(refused)
            raise
        finally:
            self._stop_renewal()

    def _stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()

    def _renew(self) -> None:
        # One try: the renewal's own loop decides when to try again.
        call = _calls.heartbeat(self.table, self.requested_time, Heartbeat())
        self._learn(self._transport.send(call, retry_seconds=0))

    def _give_up(self, exc: BaseException) -> None:
        """Roll back because of ``exc``, which is never hidden: what goes wrong here becomes its note."""
        self._stop_renewal()
        gone = self.lost is not None or isinstance(exc, errors.InstantRolledBack)
        if gone or not self._instant.state.is_pending:
            return
        try:
            self._rollback(f"{type(exc).__name__}: {exc}", retry_seconds=_BEST_EFFORT_SECONDS)
        except errors.InstantRolledBack:
            return
        except errors.ChronolakeError as failure:
            which = f"instant {self.requested_time} of {self.table}"
            exc.add_note(f"chronolake: {which} was not rolled back: {failure}")

    def _rollback(self, reason: str, *, retry_seconds: float | None) -> Instant:
        # We speak for the instant's writer, so its own lease does not stand in the way.
        body = RollbackInstant(self._instant.writer, reason[:_REASON_CHARS_MAX])
        call = _calls.rollback_instant(self.table, self.requested_time, body)
        instant = self._learn(self._command(call, retry_seconds=retry_seconds))
        self._rolled_back_here = True
        return instant

    def _command(self, call: Call[_Answer], *, retry_seconds: float | None = None) -> _Answer:
        """Send a command under a key that stays its own until the server has answered it.

        So the caller may repeat what ended in ``ConnectionFailed``: it is the same command, not a second.
        """
        with self._lock:
            key = self._unanswered.setdefault(call, new_key())
        try:
            answer = self._transport.send(call, key=key, retry_seconds=retry_seconds)
        except errors.RequestRefused:
            self._forget(call)
            raise
        self._forget(call)
        return answer

    def _forget(self, call: Call[Any]) -> None:
        with self._lock:
            self._unanswered.pop(call, None)

    def _learn(self, instant: Instant) -> Instant:
        # The answer to a heartbeat may arrive after that to complete: the later version is the truer.
        with self._lock:
            if instant.version >= self._instant.version:
                self._instant = instant
        return instant
