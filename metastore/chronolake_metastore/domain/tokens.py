"""Tokens of callers: created, rotated, revoked. No I/O, and no secrets but in the text of a new token.

A token is ``clk_<id>_<secret><checksum>``: a prefix and a checksum by which scanners find lost ones, a public
id of 50 random bits, and a secret of 256.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import TokenCreated, TokenRevoked, TokenRotated
from chronolake_model.times import MICROS_PER_SECOND, Micros

PREFIX: Final = "clk_"
ID_BYTES: Final = 7
SECRET_BYTES: Final = 32
_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_CHARS: Final = 10
_SECRET_CHARS: Final = 43
_CHECKSUM_CHARS: Final = 6
_TOKEN: Final = re.compile(rf"clk_([a-z2-7]{{{_ID_CHARS}}})_[0-9A-Za-z]{{{_SECRET_CHARS + _CHECKSUM_CHARS}}}")


class CreateToken(Command, frozen=True):
    """Create a token with the id and the digest; without ``lifetime_seconds`` it does not end."""

    token_id: str
    key_id: str
    digest: str
    acts_for_others: bool
    lifetime_seconds: int | None


class RotateToken(Command, frozen=True):
    """Give a token another secret; the one before is accepted for ``keep_seconds``."""

    token_id: str
    key_id: str
    digest: str
    keep_seconds: int


class RevokeToken(Command, frozen=True):
    """Revoke a token for good."""

    token_id: str


class StoredDigest(msgspec.Struct, frozen=True):
    """The HMAC of a token under a key; accepted until a time, if there is one."""

    key_id: str
    digest: str
    until: Micros | None = None


class StoredToken(msgspec.Struct, frozen=True):
    """A token as the database has it. ``name`` is for people."""

    token_id: str
    created_at: Micros
    expires_at: Micros | None
    acts_for_others: bool
    present: StoredDigest
    previous: StoredDigest | None
    revoked_at: Micros | None
    name: str | None = None


def new_id(random: bytes) -> str:
    """An id, of ``ID_BYTES`` random bytes."""
    return _digits(int.from_bytes(random), _ID_ALPHABET, _ID_CHARS)


def text_of(token_id: str, random: bytes) -> str:
    """A token, of ``SECRET_BYTES`` random bytes."""
    unchecked = f"{PREFIX}{token_id}_{_digits(int.from_bytes(random), _ALPHABET, _SECRET_CHARS)}"
    return unchecked + _checksum(unchecked)


def id_in(text: str) -> str | None:
    """The id in the text of a token; None if it is none, or has a wrong letter."""
    matched = _TOKEN.fullmatch(text)
    if matched is None or _checksum(text[:-_CHECKSUM_CHARS]) != text[-_CHECKSUM_CHARS:]:
        return None
    return matched[1]


def create(existing: StoredToken | None, command: CreateToken, now: Micros) -> TokenCreated | None:
    """The event, and None if the token exists; raises ``InvalidRequest`` if it is another one."""
    if existing is not None:
        if existing.present.digest != command.digest:
            raise errors.InvalidRequest(f"there is another token with the id {command.token_id}; try again")
        return None
    lifetime = command.lifetime_seconds
    return TokenCreated(
        token_id=command.token_id,
        key_id=command.key_id,
        digest=command.digest,
        acts_for_others=command.acts_for_others,
        expires_at=None if lifetime is None else Micros(now + lifetime * MICROS_PER_SECOND),
    )


def rotate(existing: StoredToken | None, command: RotateToken, now: Micros) -> TokenRotated:
    """The event; raises ``InvalidRequest`` if the token cannot be used."""
    token = _existing(existing, command.token_id)
    if token.revoked_at is not None:
        raise errors.InvalidRequest(f"token {command.token_id} was revoked; create another one")
    return TokenRotated(
        token_id=command.token_id,
        key_id=command.key_id,
        digest=command.digest,
        previous_until=Micros(now + command.keep_seconds * MICROS_PER_SECOND),
    )


def revoke(existing: StoredToken | None, command: RevokeToken) -> TokenRevoked | None:
    """The event, and None if the token was revoked before; raises ``InvalidRequest`` if there is no token."""
    token = _existing(existing, command.token_id)
    return None if token.revoked_at is not None else TokenRevoked(token_id=command.token_id)


def _existing(existing: StoredToken | None, token_id: str) -> StoredToken:
    if existing is None:
        raise errors.InvalidRequest(f"there is no token with the id {token_id}")
    return existing


def _digits(number: int, alphabet: str, length: int) -> str:
    """The last digits of a number, in the base of an alphabet."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        digits.append(alphabet[digit])
    return "".join(reversed(digits))


def _checksum(text: str) -> str:
    return _digits(binascii.crc32(text.encode()), _ALPHABET, _CHECKSUM_CHARS)
