"""The smallest and the largest record key of each base file of a Hudi table, and whether writers spell keys so.

A table can have two spellings: releases and options of Hudi spelled a single key of the complex generator as
``id:1`` or ``1``, and its bulk inserts spell times in another way than its upserts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Any, Final

import msgspec

from chronolake.hudi import logs
from chronolake.hudi.stored import READERS, StoredTable
from chronolake_model import meta_columns
from chronolake_model.record_keys import EMPTY_KEY, NULL_KEY
from chronolake_storage.files import StoredFile

_FOOTER_KEYS: Final = (b"hoodie_min_record_key", b"hoodie_max_record_key")
_INTEGER: Final = "-?(?:0|[1-9][0-9]*)"
_DATE: Final = "[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_PATTERNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "timestamp"), _INTEGER),
    "boolean": "true|false",
    "date": _DATE,
    "timestamp_ntz": rf"{_DATE} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{0,5}}[1-9])?",
    "string": "(?s:.*)",
}
"""How ``chronolake._keys.texts`` spells the values of each type, beside decimals."""
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*[0-9]+\s*(?:,\s*([0-9]+)\s*)?\)")


class _Key(msgspec.Struct, frozen=True):
    """A record key of a file. ``value`` is the text of its field, if there is one field and it is known."""

    path: str
    text: str
    value: str | None


def misfit(table: StoredTable, types: Mapping[str, str], filesystem: Any, root: str) -> str | None:
    """A record key in a latest base file that writers of Chronolake spell in another way, with its file.

    ``filesystem`` is pyarrow's, ``root`` the base path in it. None if there is none, or if keys of these fields
    have no spelling. Files that cannot be read have no keys here.
    """
    names = table.config.record_key_fields
    pattern = _pattern({name: types.get(name, "") for name in names})
    if pattern is None:
        return None
    field = names[0] if len(names) == 1 else None
    with ThreadPoolExecutor(READERS) as readers:
        of_files = readers.map(lambda file: _keys(filesystem, root, file, field), _latest(table))
        keys = [key for of_file in of_files for key in of_file]
    wrong = next((key for key in keys if not _fits(key, pattern, field)), None)
    if wrong is None:
        return None
    right = next((key for key in keys if _fits(key, pattern, field)), None)
    other = "" if right is None else f", and {right.path} has {right.text!r}"
    return f"{wrong.path} has the record key {wrong.text!r}, which Chronolake spells in another way{other}"


def _pattern(types: Mapping[str, str]) -> re.Pattern[str] | None:
    """The pattern of record keys of fields with these types; None if there are none, or none for a type."""
    values = {name: _pattern_of(type_.strip().lower()) for name, type_ in types.items()}
    if not values or None in values.values():
        return None
    if len(values) == 1:
        return re.compile("|".join(str(value) for value in values.values()))
    pairs = (f"{re.escape(name)}:(?:{value}|{NULL_KEY}|{EMPTY_KEY})" for name, value in values.items())
    return re.compile(",".join(pairs))


def _pattern_of(type_: str) -> str | None:
    decimal = _DECIMAL.fullmatch(type_)
    if decimal is None:
        return _PATTERNS.get(type_)
    scale = int(decimal[1] or 0)
    return rf"{_INTEGER}\.[0-9]{{{scale}}}" if scale else _INTEGER


def _fits(key: _Key, pattern: re.Pattern[str], field: str | None) -> bool:
    if pattern.fullmatch(key.text) is None:
        return False
    # A text may begin like a key of the complex generator: then the column tells.
    return key.value in (None, key.text) or not key.text.startswith(f"{field}:")


def _latest(table: StoredTable) -> list[StoredFile]:
    """The base files of the latest slices."""
    slices = logs.Slices(table)
    return [file for file, name in table.data_files if slices.is_latest_base(file.partition_path, name)]


def _keys(filesystem: Any, root: str, file: StoredFile, field: str | None) -> list[_Key]:
    """The smallest and the largest record key of a file, from its footer."""
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with filesystem.open_input_file(f"{root}/{file.path}") as opened:
            footer = pq.read_metadata(opened)
    except (pa.ArrowException, OSError):
        return []
    stated = footer.metadata or {}
    if all(name in stated for name in _FOOTER_KEYS):
        texts = [stated[name].decode("utf-8", "replace") for name in _FOOTER_KEYS]
    else:
        texts = _bounds(footer, meta_columns.RECORD_KEY)
    values = _bounds(footer, field) if field else []
    return [_Key(file.path, text, value) for text, value in zip_longest(texts, values) if text is not None]


def _bounds(footer: Any, column: str) -> list[str]:
    """The least and the greatest value of a column as texts, by its statistics; empty if they are not known."""
    index = next((at for at in range(footer.num_columns) if footer.schema.column(at).path == column), None)
    if index is None:
        return []
    chunks = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if not chunks or not all(chunk is not None and chunk.has_min_max for chunk in chunks):
        return []
    return [str(min(chunk.min for chunk in chunks)), str(max(chunk.max for chunk in chunks))]
