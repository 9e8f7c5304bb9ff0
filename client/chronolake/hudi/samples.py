"""Records of a Hudi table, compared with what Chronolake would write for them: key and partition path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from chronolake.hudi import spellings
from chronolake.hudi.footers import Footers
from chronolake.hudi.stored import Misfits, StoredTable
from chronolake_model import meta_columns
from chronolake_model.file_names import FileKind
from chronolake_model.partition_paths import Spelling
from chronolake_model.tables import Field
from chronolake_storage.files import StoredFile

FILES_MAX: Final = 8
"""Base files that are looked into, of different partitions as far as there are."""
RECORDS_MAX: Final = 1_000


def compared(
    table: StoredTable, schema: Sequence[Field], filesystem: Any, root: str, footers: Footers
) -> StoredTable:
    """The table with the first of its records that Chronolake would write under another key or path.

    ``filesystem`` is pyarrow's, ``root`` the base path in it. What cannot be read or computed is no misfit:
    other checks name it. The smallest and the largest key of each latest base file are compared too.
    """
    types = {field.name: field.type for field in schema}
    keys: str | None = None
    paths: str | None = None
    for file in _newest(table):
        rows = _rows(filesystem, f"{root}/{file.path}")
        if rows is None:
            continue
        keys = keys or _key_misfit(table, types, rows, file)
        paths = paths or _path_misfit(table, types, rows, file)
    keys = keys or spellings.misfit(table, types, footers)
    return msgspec.structs.replace(table, misfits=Misfits(keys, paths))


def _newest(table: StoredTable) -> list[StoredFile]:
    """The newest base file of each partition, newest first."""
    newest: dict[str, tuple[str, StoredFile]] = {}
    for file, name in table.data_files:
        if name.kind is FileKind.BASE and name.requested_time > newest.get(file.partition_path, ("",))[0]:
            newest[file.partition_path] = name.requested_time, file
    ordered = sorted(newest.values(), key=lambda entry: entry[0], reverse=True)
    return [file for _, file in ordered[:FILES_MAX]]


def _rows(filesystem: Any, path: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with filesystem.open_input_file(path) as file:
            batches: Iterator[Any] = pq.ParquetFile(file).iter_batches(RECORDS_MAX)
            return next(batches, None)
    except (pa.ArrowException, OSError):
        return None


def _key_misfit(table: StoredTable, types: Mapping[str, str], rows: Any, file: StoredFile) -> str | None:
    from chronolake import _keys  # noqa: PLC0415  # needs an extra

    names = table.config.record_key_fields
    texts = _texts(_keys.texts, names, types, rows)
    if not texts or meta_columns.RECORD_KEY not in rows.schema.names:
        return None
    made = _keys.record_keys(list(names), texts).to_pylist()
    for own, stored in zip(made, rows.column(meta_columns.RECORD_KEY).to_pylist(), strict=True):
        if own != stored:
            return f"{file.path} has the record key {stored!r}, and Chronolake makes {own!r} of its columns"
    return None


def _path_misfit(table: StoredTable, types: Mapping[str, str], rows: Any, file: StoredFile) -> str | None:
    from chronolake import _keys  # noqa: PLC0415  # needs an extra

    config = table.config
    names = [name.partition(":")[0] for name in config.partition_fields]
    texts = _texts(_keys.partition_texts, names, types, rows)
    if not texts:
        return None
    spelling = Spelling(config.hive_style_partitioning, config.url_encode_partitioning)
    made = {path for path in _keys.partition_paths(names, texts, spelling).to_pylist()}
    others = sorted(made - {file.partition_path})
    return f"a record in {file.partition_path!r} belongs to {others[0]!r} for Chronolake" if others else None


def _texts(spell: Any, names: Sequence[str], types: Mapping[str, str], rows: Any) -> list[Any]:
    """The texts of the fields; none if one of them is not there, or has no text."""
    import pyarrow as pa  # noqa: PLC0415  # an extra

    if not set(names) <= types.keys() & set(rows.schema.names):
        return []
    try:
        return [spell(rows.column(name), types[name]) for name in names]
    except (pa.ArrowException, ValueError):
        return []
