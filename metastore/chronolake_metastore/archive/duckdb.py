"""SQL over an archive: a script for DuckDB with views that read the files of the runs."""

from __future__ import annotations

from importlib import resources

from chronolake_metastore.archive import rows
from chronolake_metastore.archive.storage import ArchiveStorage

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


def script(storage: ArchiveStorage) -> str:
    """The views over the runs that the manifest lists now. Raises ``ArchiveDamaged``."""
    paths: dict[str, list[str]] = {table: [] for table in rows.COLUMNS}
    for listed in storage.manifest().runs:
        for file in storage.run(listed).files:
            if file.table in paths:
                paths[file.table].append(storage.location_of(listed, file))
    views = "\n".join(_view(table, of_table) for table, of_table in paths.items())
    template = resources.files("chronolake_metastore.archive").joinpath("views.sql").read_text("utf-8")
    return template.replace("{files}", views)


def _view(table: str, paths: list[str]) -> str:
    columns = rows.stored_columns(table).items()
    if paths:
        names = ", ".join(name for name, _ in columns)
        quoted = [path.replace("'", "''") for path in paths]
        files = ", ".join(f"'{path}'" for path in quoted)
        query = f"SELECT {names} FROM read_parquet([{files}])"  # noqa: S608 - the paths are quoted
    else:
        nulls = ", ".join(f"NULL::{_TYPES[form]} AS {name}" for name, form in columns)
        query = f"SELECT {nulls} WHERE false"
    return f"CREATE OR REPLACE VIEW chronolake.archived_{table} AS {query};"
