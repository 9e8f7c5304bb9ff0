"""Tokens of our own: verified by the database, and remembered until the catalog has changed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.domain.tokens import StoredDigest, StoredToken
from chronolake_metastore.errors import Reason
from chronolake_metastore.identification.token_keys import TokenKeys
from chronolake_metastore.store import tokens as store
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import MICROS_PER_SECOND, Micros

VERSION_SECONDS: Final = 1.0
"""How old the known version of the catalog may be: a revoked token is accepted no longer than this."""
REMEMBERED_MAX: Final = 10_000


class _Verified(msgspec.Struct, frozen=True):
    subject: Subject
    until: Micros | None


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
        self._verified: dict[bytes, _Verified] = {}
        self._version: int | None = None
        self._version_read_at = 0.0
        self._reading = asyncio.Lock()

    async def identify(self, text: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``, and ``DatabaseUnavailable``."""
        token_id = tokens.id_in(text)
        if token_id is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        await self._read_version()
        key = hashlib.sha256(text.encode()).digest()
        verified = self._verified.get(key)
        if verified is None:
            version = self._version
            verified = self._verify(text, await store.get(self._database, token_id))
            # Otherwise the token may have been revoked after it was read, and would be remembered for good.
            if version == self._version:
                self._remember(key, verified)
        if verified.until is not None and self._now() >= verified.until:
            raise errors.Unauthenticated(Reason.EXPIRED)
        return verified.subject

    async def _read_version(self) -> None:
        """Forget all tokens when the catalog has changed. Concurrent callers share one read."""
        if self._is_version_fresh():
            return
        async with self._reading:
            if self._is_version_fresh():
                return
            began_at = self._clock()
            version = await store.version(self._database)
            if version != self._version:
                self._verified.clear()
                self._version = version
            self._version_read_at = began_at

    def _is_version_fresh(self) -> bool:
        return self._version is not None and self._clock() - self._version_read_at < VERSION_SECONDS

    def _verify(self, text: str, token: StoredToken | None) -> _Verified:
        if token is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        subject = Subject(f"token:{token.token_id}", token.acts_for_others)
        if self._is_of(text, token.present):
            until = token.expires_at
        elif token.previous is not None and self._is_of(text, token.previous):
            until = min(time for time in (token.previous.until, token.expires_at) if time is not None)
        else:
            raise errors.Unauthenticated(Reason.WRONG_SECRET)
        if token.revoked_at is not None:
            raise errors.Unauthenticated(Reason.REVOKED)
        return _Verified(subject, until)

    def _is_of(self, text: str, stored: StoredDigest) -> bool:
        digest = self._keys.digest(stored.key_id, text)
        return digest is not None and hmac.compare_digest(digest, stored.digest)

    def _remember(self, key: bytes, verified: _Verified) -> None:
        if len(self._verified) >= REMEMBERED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[key] = verified

    def _now(self) -> Micros:
        return Micros(int(self._wall_clock() * MICROS_PER_SECOND))
