"""The rights of callers as one server process knows them: read again when they are a second old.

They are read again, too, before a request is refused by them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.rights import UNLIMITED, Rights
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.store import grants
from chronolake_metastore.store.postgres.engine import Database

ResultT = TypeVar("ResultT")

RIGHTS_SECONDS: Final = 1.0
"""How old the known rights of a subject may be: a revoked role serves reads no longer than this."""
REMEMBERED_MAX: Final = 1_000


class _Known(msgspec.Struct):
    rights: Rights | None
    read_at: float
    reading: asyncio.Lock


class CallersRights:
    """The rights of subjects, for reads and notes."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def of(self, subject: Subject) -> Rights:
        """The rights of a subject, at most ``RIGHTS_SECONDS`` old; raises ``DatabaseUnavailable``."""
        return await self._since(subject, self._clock() - RIGHTS_SECONDS)

    async def present(self, subject: Subject) -> Rights:
        """The rights that a subject has now; raises ``DatabaseUnavailable``."""
        return await self._since(subject, self._clock())

    async def checked(self, subject: Subject, check: Callable[[Rights], ResultT]) -> ResultT:
        """The result of ``check`` for the rights of a subject. Before it refuses, present ones decide.

        Raises as ``check``, and ``DatabaseUnavailable``.
        """
        rights = await self.of(subject)
        try:
            return check(rights)
        except (errors.Forbidden, errors.NotFound):
            pass
        return check(await self.present(subject))

    async def _since(self, subject: Subject, oldest: float) -> Rights:
        """The rights as of a read that began at ``oldest`` or later."""
        if subject.is_unlimited:
            return UNLIMITED
        known = self._known.get(subject.name)
        if known is None:
            known = self._remember(subject.name)
        if known.rights is not None and known.read_at > oldest:
            return known.rights
        # Concurrent requests of a subject share one read.
        async with known.reading:
            if known.rights is None or known.read_at <= oldest:
                began_at = self._clock()
                known.rights = await grants.get_rights(self._database, subject.name)
                known.read_at = began_at
            return known.rights

    def _remember(self, name: str) -> _Known:
        if len(self._known) >= REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        known = self._known[name] = _Known(None, float("-inf"), asyncio.Lock())
        return known
