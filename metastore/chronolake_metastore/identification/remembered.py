"""The tokens that were verified lately, so that not every request verifies its token again."""

from __future__ import annotations

import hashlib
from typing import Final, Generic, TypeVar

REMEMBERED_MAX: Final = 10_000

VerifiedT = TypeVar("VerifiedT")


class Remembered(Generic[VerifiedT]):
    """The results of the last ``REMEMBERED_MAX`` verifications, by the digests of the tokens' texts."""

    def __init__(self) -> None:
        self._verified: dict[bytes, VerifiedT] = {}

    def get(self, key: bytes) -> VerifiedT | None:
        """The result for a token."""
        return self._verified.get(key)

    def forget(self, key: bytes) -> None:
        """Forget the result for a token, if there is one."""
        self._verified.pop(key, None)

    def remember(self, key: bytes, verified: VerifiedT) -> None:
        """Remember a result, and forget the oldest if there are too many."""
        self.forget(key)
        if len(self._verified) >= REMEMBERED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[key] = verified


def key_of(token: str) -> bytes:
    """The digest of a token's text: the memory of a server has no tokens."""
    return hashlib.sha256(token.encode()).digest()
