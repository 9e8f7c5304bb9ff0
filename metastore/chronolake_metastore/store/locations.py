"""The locations of namespaces as a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors, object_storage
from chronolake_metastore.domain import locations
from chronolake_metastore.domain.locations import AllowedLocations
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Statement, read

_FIND: Final = statements.load("locations/find")
_PAGE: Final = """
    SELECT namespace, location, is_allowed, version
    FROM location
    WHERE (namespace, location) > (%(namespace)s, %(location)s)
    ORDER BY namespace, location
    LIMIT %(limit)s
"""
_SAVE: Final = statements.load("locations/save")


class StoredLocation(msgspec.Struct, frozen=True):
    """A location of a namespace; ``version`` is that of the last event of the catalog about it."""

    namespace: str
    location: str
    is_allowed: bool
    version: int


def find(names: Iterable[str]) -> Query[dict[str, list[str]]]:
    """The locations of the namespaces that have a list of their own."""
    named = sorted(set(names))
    return Query(_FIND, {"names": named}, dict) if named else Query.known({})


def save(changed: Sequence[StoredLocation]) -> Statement:
    """Save locations in their present state."""
    return _SAVE, {
        "namespace": [location.namespace for location in changed],
        "location": [location.location for location in changed],
        "is_allowed": [location.is_allowed for location in changed],
        "version": [location.version for location in changed],
    }


async def allowed(database: Database, connection: Connection, namespace: str) -> AllowedLocations:
    """Where the tables of a namespace may have their base paths now."""
    own = await read(connection, find([namespace]))
    return locations.effective(namespace, own.get(namespace), database.default_locations)


def refuse_outside(allowed: AllowedLocations, base_path: str) -> None:
    """Raise ``ConfigurationError`` unless a base path is allowed, wherever its links lead now.

    For the use of a table's storage: the list, and local links, may have changed since it was created.
    """
    if allowed.locations is None:
        return
    try:
        key = object_storage.key_of_links(base_path)
    except OSError as exc:
        raise errors.ConfigurationError(f"{base_path}: a link in it cannot be read ({exc.strerror})") from exc
    try:
        allowed.refuse_outside(base_path, locations.address_of(base_path, key))
    except errors.LocationNotAllowed as exc:
        raise errors.ConfigurationError(exc.detail) from exc


async def page(connection: Connection, after: tuple[str, str], limit: int) -> list[StoredLocation]:
    """Locations after ``after`` (namespace, location), in that order."""
    namespace, location = after
    parameters = {"namespace": namespace, "location": location, "limit": limit}
    rows = await connection.execute(_PAGE, parameters)
    return [StoredLocation(*row) for row in rows]
