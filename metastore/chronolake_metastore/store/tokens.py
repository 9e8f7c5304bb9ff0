"""Tokens of callers, and their names."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from chronolake_metastore.domain.events import TokenCreated, TokenRevoked, TokenRotated
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.tokens import StoredDigest, StoredToken
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, read
from chronolake_model.times import Micros

LISTED_MAX: Final = 10_000
NAMED_MAX: Final = 100
_FIND: Final = statements.load("tokens/find")
_LIST: Final = statements.load("tokens/list")
_NAMED: Final = statements.load("tokens/named")
_VERSION: Final = "SELECT version FROM clock WHERE table_id = %(catalog)s"
_SAVE_CREATED: Final = """
    INSERT INTO token (token_id, created_at, expires_at, acts_for_others, key_id, digest)
    VALUES (
        %(token_id)s, moment(%(time)s), moment(%(expires_at)s::bigint), %(acts_for_others)s, %(key_id)s,
        %(digest)s
    )
"""
_SAVE_ROTATED: Final = """
    UPDATE token
    SET
        previous_key_id = key_id, previous_digest = digest, previous_until = moment(%(previous_until)s),
        key_id = %(key_id)s, digest = %(digest)s
    WHERE token_id = %(token_id)s
"""
_SAVE_REVOKED: Final = "UPDATE token SET revoked_at = moment(%(time)s) WHERE token_id = %(token_id)s"
_SAVE_NAME: Final = """
    INSERT INTO token_name (token_id, name) VALUES (%(token_id)s, %(name)s)
    ON CONFLICT ON CONSTRAINT token_name_unique DO UPDATE SET name = excluded.name
"""


def save_created(created: TokenCreated, time: Micros) -> Statement:
    """Save a new token."""
    return _SAVE_CREATED, {**msgspec.structs.asdict(created), "time": time}


def save_rotated(rotated: TokenRotated) -> Statement:
    """Save the new secret of a token, and keep the one before."""
    return _SAVE_ROTATED, msgspec.structs.asdict(rotated)


def save_revoked(revoked: TokenRevoked, time: Micros) -> Statement:
    """Save that a token was revoked."""
    return _SAVE_REVOKED, {"token_id": revoked.token_id, "time": time}


def find(token_id: str) -> Query[StoredToken | None]:
    """The token with this id."""
    return Query(_FIND, {"token_id": token_id}, _first)


async def get(database: Database, token_id: str) -> StoredToken | None:
    """As ``find``."""
    async with database.identifying() as connection:
        return await read(connection, find(token_id))


async def version(database: Database) -> int:
    """The version of the catalog: it changes with each token that is created, rotated or revoked."""
    query: Query[int] = Query(_VERSION, {"catalog": CATALOG_ID}, lambda rows: rows[0][0] if rows else 0)
    async with database.identifying() as connection:
        return await read(connection, query)


async def listed(database: Database) -> list[StoredToken]:
    """The tokens, the oldest first, ``LISTED_MAX`` at most."""
    query = Query(_LIST, {"limit": LISTED_MAX}, lambda rows: [_token(row) for row in rows])
    async with database.reading() as connection:
        return await read(connection, query)


async def named(database: Database, name: str) -> list[StoredToken]:
    """The tokens with this name, those that are not revoked first, ``NAMED_MAX`` at most."""
    query = Query(_NAMED, {"name": name, "limit": NAMED_MAX}, lambda rows: [_token(row) for row in rows])
    async with database.reading() as connection:
        return await read(connection, query)


async def save_name(database: Database, token_id: str, name: str) -> None:
    """Name a token."""
    async with database.committing() as connection:
        await connection.execute(_SAVE_NAME, {"token_id": token_id, "name": name})


def _first(rows: Rows) -> StoredToken | None:
    return _token(rows[0]) if rows else None


def _token(row: tuple[Any, ...]) -> StoredToken:
    token_id, created_at, expires_at, acts_for_others, key_id, digest, *before, revoked_at, name = row
    previous_key_id, previous_digest, previous_until = before
    return StoredToken(
        token_id=token_id,
        created_at=created_at,
        expires_at=expires_at,
        acts_for_others=acts_for_others,
        present=StoredDigest(key_id, digest),
        previous=None
        if previous_digest is None
        else StoredDigest(previous_key_id, previous_digest, previous_until),
        revoked_at=revoked_at,
        name=name,
    )
