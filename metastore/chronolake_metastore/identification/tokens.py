"""Tokens of our own: verified by the database, and remembered until the catalog has changed."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.domain.tokens import StoredDigest, StoredToken
from chronolake_metastore.identification import remembered
from chronolake_metastore.identification.remembered import Remembered
from chronolake_metastore.identification.token_keys import TokenKeys
from chronolake_metastore.store import tokens as store
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import MICROS_PER_SECOND, Micros

VERSION_SECONDS: Final = 1.0
"""How old the known version of the catalog may be: a revoked token is accepted no longer than this."""
AHEAD_SECONDS: Final = 0.7
"""How often a version in use is read, so that no request waits for it: on a busy loop that takes long."""
WAITING_MAX: Final = 1_000
"""How many callers may wait for the same kind of read; further ones are answered 503."""

_log = telemetry.logger(__name__)


class _Verified(msgspec.Struct, frozen=True):
    subject: Subject
    until: Micros | None
    version: int | None
    """The version of the catalog for which it was verified."""


class _Lane:
    """Reads of one kind, one after the other. All that wait while a read fails share its failure.

    So during an outage nobody waits for more than one timeout.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._failures = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A read alone; raises ``DatabaseUnavailable``."""
        if self._waiting >= WAITING_MAX:
            raise errors.DatabaseUnavailable("too many callers wait to be identified; send the request again")
        failures = self._failures
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            if self._failures != failures:
                raise errors.DatabaseUnavailable(
                    "the server cannot reach its database to identify callers; send the request again"
                )
            try:
                yield
            except errors.Unavailable:
                self._failures += 1
                raise
        finally:
            self._lock.release()


class TokenVerifier:
    """The tokens of one database, as one server process knows them."""

    def __init__(
        self,
        database: Database,
        keys: TokenKeys,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._wall_clock = wall_clock
        self._verified: Remembered[_Verified] = Remembered()
        self._version: int | None = None
        self._version_read_at = 0.0
        self._is_version_used = False
        # Strangers, who can make up tokens, wait for each other and not for callers that are known.
        self._versions, self._known, self._strangers = _Lane(), _Lane(), _Lane()

    async def run(self) -> None:
        """Read the version again before it is old, while it is used, until cancelled."""
        while True:
            await asyncio.sleep(AHEAD_SECONDS)
            if not self._is_version_used:
                continue
            self._is_version_used = False
            try:
                async with self._versions.turn():
                    await self._read_version_now()
            except errors.Unavailable:
                # The next caller reads it, or is told.
                pass
            except Exception:
                # The edge of a worker: a failure must not end the server.
                _log.exception("the version of the catalog could not be read")

    async def identify(self, text: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``, and ``DatabaseUnavailable``."""
        key = remembered.key_of(text)
        # A text with a wrong letter was never verified, and must not cause a read of the version.
        if self._verified.get(key) is None and tokens.id_in(text) is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        await self._read_version()
        verified = self._present(key) or await self._look_up(key, text)
        if verified.until is not None and self._now() >= verified.until:
            raise errors.Unauthenticated(Reason.EXPIRED)
        return verified.subject

    def known(self, key: bytes) -> Subject | None:
        """The subject of the token with this key, if ``identify`` would give it without a read."""
        if not self._is_version_fresh() or (verified := self._present(key)) is None:
            return None
        self._is_version_used = True
        return verified.subject if verified.until is None or self._now() < verified.until else None

    def remembers(self, text: str) -> bool:
        """Whether a token was verified before."""
        return self._verified.get(remembered.key_of(text)) is not None

    def _present(self, key: bytes) -> _Verified | None:
        """A token that was verified for the present version of the catalog."""
        verified = self._verified.get(key)
        return None if verified is None or verified.version != self._version else verified

    async def _look_up(self, key: bytes, text: str) -> _Verified:
        token_id = tokens.id_in(text)
        assert token_id is not None
        async with (self._strangers if self._verified.get(key) is None else self._known).turn():
            if verified := self._present(key):
                return verified
            # Read before the token: it may be revoked afterwards, and must not be remembered for good.
            version = self._version
            stored = await store.get(self._database, token_id)
            self._verified.forget(key)
            verified = self._verify(text, stored, version)
            self._verified.remember(key, verified)
            return verified

    async def _read_version(self) -> None:
        """Read the version of the catalog again when it is old. Concurrent callers share one read."""
        if self._is_version_fresh():
            return
        async with self._versions.turn():
            if self._is_version_fresh():
                return
            await self._read_version_now()

    async def _read_version_now(self) -> None:
        began_at = self._clock()
        self._version = await store.version(self._database)
        self._version_read_at = began_at

    def _is_version_fresh(self) -> bool:
        return self._version is not None and self._clock() - self._version_read_at < VERSION_SECONDS

    def _verify(self, text: str, token: StoredToken | None, version: int | None) -> _Verified:
        if token is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        subject = Subject(f"token:{token.token_id}", token.acts_for_others, token.token_id)
        if self._is_of(text, token.present):
            until = token.expires_at
        elif token.previous is not None and self._is_of(text, token.previous):
            until = min(time for time in (token.previous.until, token.expires_at) if time is not None)
        else:
            raise errors.Unauthenticated(Reason.WRONG_SECRET)
        if token.revoked_at is not None:
            raise errors.Unauthenticated(Reason.REVOKED)
        return _Verified(subject, until, version)

    def _is_of(self, text: str, stored: StoredDigest) -> bool:
        digest = self._keys.digest(stored.key_id, text)
        return digest is not None and hmac.compare_digest(digest, stored.digest)

    def _now(self) -> Micros:
        return Micros(int(self._wall_clock() * MICROS_PER_SECOND))
