"""Claiming the storage of tables again, for an operator who has moved or restored the database."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors, object_storage
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import base_paths, identity, instants, locations, recorded_events
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.names import split_table_name
from chronolake_model.storage import options_of
from chronolake_storage import claims, opening
from chronolake_storage.claims import Claim, Owner, Renewal
from chronolake_storage.errors import BasePathMissing, StorageError
from chronolake_storage.files import Files
from chronolake_storage.overlaps import TablePlace

PAGE: Final = 200
"""Tables that are read at once."""
_FAILURES: Final = (StorageError, ImportError, ValueError, errors.ConfigurationError)
"""How the access to a table's storage fails."""


class Claimed(msgspec.Struct, frozen=True):
    """The outcome for one table; ``failure`` says why its claim is not this metastore's.

    A table that was never written may have no folder: then its first writer makes the claim.
    """

    table: str
    base_path: str
    renewal: Renewal | None
    failure: str | None = None
    is_missing: bool = False
    """The folder, or its bucket, is not there."""
    was_never_written: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether the claim needs the operator's attention."""
        return self.renewal is None and not (self.is_missing and self.was_never_written)


class Identities(msgspec.Struct, frozen=True):
    """The metastore's ids, the present one last; ``is_new`` when it was, or would be, made by this command."""

    all_identities: list[UUID]
    is_new: bool


async def claim(
    settings: Settings,
    tell: Callable[[Claimed], None],
    open_archive: Callable[[], object],
    *,
    table: str | None = None,
    new_id: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> Identities:
    """Renew the identity if this PostgreSQL is not the one that it was made in, then claim each live table.

    It is renewed, too, if the claim of a table records an event that the log lacks: then this database is an
    earlier state of the metastore, and the later one, if it runs still, must not act.

    ``new_id`` renews it in any case: for a copy that cannot be distinguished from its original. It may be
    called again, and continues where it stopped. ``open_archive`` opens the archive of the log, for claims that
    record an event of it. Raises ``TableNotFound``, ``DatabaseUnavailable``, ``ArchiveUnavailable``.
    """
    database = Database(settings, open_archive)
    try:
        exists = False
        places = [place async for place in _places(database)]
        new_id = new_id or await _is_behind(database, settings, places)
        identities = await _identities(database, new_id=new_id, dry_run=dry_run)
        tables = [TablePlace(str(place.table_id), place.table, place.base_path) for place in places]
        tables += [table async for table in _dropped(database)]
        for place in places:
            if table is None or place.table == table:
                exists = True
                owner = await _owner(database, place, identities)
                renew = functools.partial(
                    claims.renew,
                    owner=owner,
                    earlier_ids=[str(metastore_id) for metastore_id in identities.all_identities[:-1]],
                    tables=tables,
                    force=force,
                    dry_run=dry_run,
                )
                claimed = await asyncio.to_thread(
                    _claim, place, await _opener(database, settings, place), renew
                )
                tell(await _with_history(database, place, claimed))
    finally:
        await database.close()
    if table is not None and not exists:
        raise errors.ConfigurationError(f"there is no table {table}")
    return identities


async def _identities(database: Database, *, new_id: bool, dry_run: bool) -> Identities:
    async with database.reading() as connection:
        present, all_identities = await identity.get(connection), await identity.all_identities(connection)
    if present.is_of_this_database and not new_id:
        return Identities(all_identities, is_new=False)
    if dry_run:
        # An unknown id takes the place of the one that would be made.
        return Identities([*all_identities, uuid.uuid4()], is_new=True)
    async with database.committing() as connection:
        return Identities(await identity.renew(connection), is_new=True)


async def _is_behind(database: Database, settings: Settings, places: Iterable[Place]) -> bool:
    """Whether a claim records an event that the log lacks. The renewal reports storage that fails."""
    async with database.reading() as connection:
        present = await identity.get(connection)
    for place in places:
        claim = await asyncio.to_thread(_find_claim, await _opener(database, settings, place))
        if await recorded_events.is_behind(database, place.table_id, claim, present.metastore_id):
            return True
    return False


async def _places(database: Database) -> AsyncIterator[Place]:
    after = UUID(int=0)
    while True:
        async with database.reading() as connection:
            page = await identity.tables(connection, after, PAGE)
        if not page:
            return
        for place in page:
            yield place
        after = page[-1].table_id


async def _dropped(database: Database) -> AsyncIterator[TablePlace]:
    after = UUID(int=0)
    while True:
        async with database.reading() as connection:
            page = await base_paths.dropped(connection, after, PAGE)
        if not page:
            return
        for table in page:
            yield TablePlace(table.table_id, table.name, table.base_path, is_dropped=True)
        after = UUID(page[-1].table_id)


async def _owner(database: Database, place: Place, identities: Identities) -> Owner:
    async with database.reading() as connection:
        took_over = await base_paths.took_over(connection, place.table_id)
    metastore_id = str(identities.all_identities[-1])
    return Owner(metastore_id, str(place.table_id), place.table, list(map(str, took_over)))


async def _with_history(database: Database, place: Place, claimed: Claimed) -> Claimed:
    """The outcome, and of a missing folder whether the table was never written."""
    if not claimed.is_missing:
        return claimed
    async with database.reading() as connection:
        has_instants = await instants.are_there(connection, place.table_id)
    return msgspec.structs.replace(claimed, was_never_written=not has_instants)


async def _opener(database: Database, settings: Settings, place: Place) -> Callable[[], Files]:
    """The function that opens a table's storage if its namespace may have tables there."""
    async with database.reading() as connection:
        allowed = await locations.allowed(database, connection, split_table_name(place.table)[0])

    def opened() -> Files:
        locations.refuse_outside(allowed, place.base_path)
        options = options_of(place.properties)
        object_storage.refuse_endpoint(options, settings.storage_endpoints)
        files = opening.open_files(place.base_path, options)
        files.check()
        return files

    return opened


def _find_claim(opened: Callable[[], Files]) -> Claim | None:
    try:
        return claims.find(opened())
    except _FAILURES:
        return None


def _claim(place: Place, opened: Callable[[], Files], renew: Callable[[Files], Renewal]) -> Claimed:
    try:
        renewal = renew(opened())
    except _FAILURES as exc:
        is_missing = isinstance(exc, BasePathMissing)
        return Claimed(place.table, place.base_path, None, str(exc), is_missing=is_missing)
    return Claimed(place.table, place.base_path, renewal)
