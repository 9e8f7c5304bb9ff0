"""The command of auditors: views over the whole log."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from chronolake_metastore import errors, object_storage
from chronolake_metastore.archive import duckdb
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.cli.archiving import ROLE
from chronolake_metastore.cli.options import existing, of_settings
from chronolake_metastore.cli.proving import count
from chronolake_metastore.domain.archives import ArchiveManifest
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store.postgres import diagnosis

app = typer.Typer(no_args_is_help=True, help="Read the whole log with SQL.")


@app.callback()
def _audit() -> None:
    pass


@app.command(name="duckdb")
@of_settings("role", log_level=LogLevel.WARNING, role=ROLE)
def make_views(
    settings: Settings,
    *,
    to: Annotated[Path, typer.Option(help="The file of SQL, which is replaced.", metavar="FILE")],
    archive: Annotated[
        str | None,
        typer.Option(
            help=(
                "The location of the archive, as a path or a URI (s3://...); without it, the one that the "
                "database names."
            ),
            metavar="FOLDER or URI",
        ),
    ] = None,
    archive_only: Annotated[
        bool, typer.Option("--archive-only", help="Without the database: the archived part of the log alone.")
    ] = False,
) -> None:
    """Write SQL for DuckDB: views over the archive and PostgreSQL together, as auditors know them.

    Open them with duckdb -init FILE. They read both when they are queried, so they have all later rows too. Run
    it again after archive write and archive drop, which change the files of the archive. The file has no
    password: PGPASSWORD or a password file gives it. Nothing is written to PostgreSQL.
    """
    if archive_only and archive is None:
        raise typer.BadParameter("without the database, name the archive", param_hint="--archive")
    database = None if archive_only else existing(settings)
    try:
        storage, manifest = asyncio.run(_archive(archive, database))
        _replace(to, duckdb.script(storage, manifest, database))
    except ArchiveDamaged as exc:
        raise errors.ConfigurationError(f"the archive is damaged: {exc}; run archive verify") from exc
    events = sum(run.events for run in manifest.runs)
    typer.echo(
        f"{to}: views over {count(len(manifest.runs), 'run')} of the archive with {count(events, 'event')}"
        f"{'' if archive_only else ', and over PostgreSQL'}; open them with duckdb -init {to}"
    )


async def _archive(location: str | None, database: Settings | None) -> tuple[ArchiveStorage, ArchiveManifest]:
    """The archive, which fits to the database; raises ``ConfigurationError``."""
    if database is None:
        assert location is not None
        storage = ArchiveStorage(object_storage.open_location(location))
        return storage, storage.existing_manifest()
    await readiness.check_at_start(database, writes=False)
    with diagnosis.missing_rights(database.role, writes=False):
        location = location or await duckdb.location_of(database)
        storage = ArchiveStorage(object_storage.open_location(location))
        return storage, await duckdb.fitting_manifest(database, storage)


def _replace(path: Path, text: str) -> None:
    """Replace a file as a whole, so that no reader finds a part of it."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f"{path.name}.", delete=False
        ) as written:
            written.write(text)
        os.replace(written.name, path)
    except OSError as exc:
        raise errors.ConfigurationError(f"{path} cannot be written: {exc.strerror}") from exc
