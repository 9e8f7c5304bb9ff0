"""The commands of operators on the locations of namespaces (docs/decisions/0099-locations.md)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from chronolake_metastore import errors, object_storage
from chronolake_metastore.cli import owning
from chronolake_metastore.cli.options import checked_namespace, existing, of_settings
from chronolake_metastore.domain.locations import AllowLocation, RevokeLocation
from chronolake_metastore.domain.results import LocationResult
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store import locations
from chronolake_metastore.store.locations import StoredLocation
from chronolake_metastore.store.postgres.engine import Database

PAGE: Final = 1_000
"""Locations that are read at once."""

app = typer.Typer(no_args_is_help=True, help="Say where tables may have their base paths.")

_Namespace = Annotated[
    str, typer.Argument(help="The namespace, which need not exist yet.", metavar="NAMESPACE")
]
_Location = Annotated[str, typer.Argument(help="A folder, as a path or a URI (s3://...).", metavar="LOCATION")]


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def allow(settings: Settings, *, namespace: _Namespace, location: _Location) -> None:
    """Allow tables of a namespace to have their base paths at or below a location.

    The first location gives the namespace a list of its own: from then on no other place is allowed, and the
    --location of servers does not count. Links of a local path are resolved as this machine sees them. It needs
    the login that migrates, and may run again. There are no wildcards.
    """
    place = object_storage.location_of(location)
    is_changed = change(settings, AllowLocation(checked_namespace(namespace), place))
    typer.echo(f"{namespace}: {place} {'is allowed' if is_changed else 'was allowed before'}")


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def revoke(settings: Settings, *, namespace: _Namespace, location: _Location) -> None:
    """Revoke a location, as list shows it. A namespace whose locations are all revoked may have tables nowhere.

    Tables that are there can be read, written and dropped as before, but servers touch their storage no more.
    """
    place = _listed(existing(settings), checked_namespace(namespace), location)
    is_changed = change(settings, RevokeLocation(namespace, place))
    if not is_changed:
        raise errors.ConfigurationError(
            f"{place} is not among the locations of {namespace}; see locations list"
        )
    typer.echo(f"{namespace}: {place} is revoked")


@app.command(name="list")
@of_settings("role", log_level=LogLevel.WARNING)
def show(
    settings: Settings,
    *,
    namespace: Annotated[
        str | None, typer.Argument(help="Only those of this namespace.", metavar="NAMESPACE")
    ] = None,
) -> None:
    """List the locations of all namespaces that have a list of their own, revoked ones too."""
    for location in asyncio.run(_all(existing(settings), namespace)):
        revoked = "" if location.is_allowed else " (revoked)"
        typer.echo(f"{location.namespace}: {location.location}{revoked}")


def change(settings: Settings, command: AllowLocation | RevokeLocation) -> bool:
    """Execute a command of the operator; gives whether it has changed anything."""

    async def run(database: Database) -> bool:
        result = await owning.execute(database, command, "locations")
        assert isinstance(result, LocationResult)
        return result.is_changed

    return owning.run(settings, "change the locations of namespaces", run)


def _listed(settings: Settings, namespace: str, location: str) -> str:
    """The location as it is in the list: its link may lead elsewhere by now."""
    listed = asyncio.run(_all(settings, namespace))
    given = location if location.endswith("/") else f"{location}/"
    return given if any(of.location == given for of in listed) else object_storage.location_of(location)


async def _all(settings: Settings, namespace: str | None) -> list[StoredLocation]:
    await readiness.check_at_start(settings, writes=False)
    database, found = Database(settings), list[StoredLocation]()
    after = ("" if namespace is None else namespace, "")
    try:
        while True:
            async with database.reading() as connection:
                page = await locations.page(connection, after, PAGE)
            found += [of for of in page if namespace in (None, of.namespace)]
            if len(page) < PAGE or (namespace is not None and page[-1].namespace != namespace):
                return found
            after = page[-1].namespace, page[-1].location
    finally:
        await database.close()
