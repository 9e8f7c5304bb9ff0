"""SQL for DuckDB: views over the whole log, part of which is in the archive, and the other in PostgreSQL.

The archive has the events of the transactions before its end, and PostgreSQL those from there on, so no row is
read twice, whatever PostgreSQL still has of what is archived.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.archive import rows, verification
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveManifest
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive
from chronolake_metastore.store.postgres import engine, migrations
from chronolake_metastore.store.postgres.engine import Database
from chronolake_storage import opening

_TYPES = {
    rows.ColumnForm.ID: "uuid",
    rows.ColumnForm.NUMBER: "bigint",
    rows.ColumnForm.TIME: "timestamptz",
    rows.ColumnForm.WORD: "varchar",
    rows.ColumnForm.TEXT: "varchar",
    rows.ColumnForm.BYTES: "blob",
    rows.ColumnForm.FLAG: "boolean",
}
"""DuckDB's types of columns."""
_EXTENSIONS: Final = {"s3": "httpfs", "gs": "httpfs", "az": "azure"}
"""By scheme of a URI, DuckDB's extension that reads it."""
_SHARED_VIEWS: Final = ("audit_denials", "audit_credentials")
_GLOB: Final = re.compile(r"[*?\[]")
_LIVE: Final = re.compile(r"^-- live\n.*?^-- end of live\n", re.DOTALL | re.MULTILINE)
_PLACE: Final = re.compile(r"\{(\w+)\}")


async def location_of(settings: Settings) -> str:
    """The location of the archive that has what left the database.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` if nothing did.
    """
    location = await verification.recorded_location(settings)
    if location is None:
        raise errors.ConfigurationError(
            "the database names no archive, because nothing has left it yet; name the location with --archive"
        )
    return location


async def fitting_manifest(settings: Settings, storage: ArchiveStorage) -> ArchiveManifest:
    """The manifest of an archive that has all that the database lacks, of one log.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` when it is another archive.
    """
    await verification.refuse_other(settings, storage)
    manifest, ends = storage.manifest(), ArchiveEnds()
    for listed in manifest.runs:
        ends.add(storage.run(listed))
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            comparison = await archive.compare(tx, ends, manifest.metastore_id)
    finally:
        await database.close()
    if (refusal := comparison.refusal()) is not None:
        raise errors.ConfigurationError(refusal)
    return manifest


def script(storage: ArchiveStorage, manifest: ArchiveManifest, database: Settings | None) -> str:
    """The views over the runs of a manifest, and over the rows of a database after them.

    Raises ``ArchiveDamaged``. The script has no password.
    """
    paths: dict[str, list[str]] = {table: [] for table in rows.COLUMNS}
    for listed in manifest.runs:
        for file in storage.run(listed).files:
            if file.table in paths:
                paths[file.table].append(_path(storage.location_of(listed, file)))
    template = resources.files("chronolake_metastore.archive").joinpath("views.sql").read_text("utf-8")
    values = {
        "extensions": _extension(storage.location),
        "files": "\n".join(_view(table, of_table) for table, of_table in paths.items()),
        "end": f"{manifest.end}",
        **{name: _of_postgres(name) for name in _SHARED_VIEWS},
    }
    if database is None:
        template = _LIVE.sub("", template)
    else:
        values["database"] = _quoted(engine.shown_conninfo(database))
    return _PLACE.sub(lambda match: values[match[1]], template)


def _of_postgres(view: str) -> str:
    """A view whose definition in PostgreSQL is one in DuckDB too."""
    return migrations.view(view).replace("CREATE VIEW", "CREATE OR REPLACE VIEW")


def _view(table: str, paths: list[str]) -> str:
    columns = rows.stored_columns(table).items()
    if paths:
        names = ", ".join(name for name, _ in columns)
        files = ", ".join(_quoted(path) for path in paths)
        query = f"SELECT {names} FROM read_parquet([{files}])"  # noqa: S608 - the paths are quoted
    else:
        nulls = ", ".join(f"NULL::{_TYPES[form]} AS {name}" for name, form in columns)
        query = f"SELECT {nulls} WHERE false"
    return f"CREATE OR REPLACE VIEW chronolake.archived_{table} AS {query};"


def _path(location: str) -> str:
    """The path of a file, in which DuckDB finds no pattern."""
    return _GLOB.sub(lambda match: f"[{match[0]}]", opening.local_path(location) or location)


def _extension(location: str) -> str:
    name = _EXTENSIONS.get(location.partition("://")[0]) if "://" in location else None
    return "" if name is None else f"INSTALL {name};\nLOAD {name};"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
