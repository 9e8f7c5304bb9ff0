"""The smallest and the largest record key of each base file of a Hudi table, and whether writers spell keys so.

A table can have two spellings: releases and options of Hudi spelled a single key of the complex generator as
``id:1`` or ``1``, and its bulk inserts spell times in another way than its upserts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

import msgspec

from chronolake.hudi import logs
from chronolake.hudi.footers import Footer, Footers
from chronolake.hudi.stored import StoredTable
from chronolake_model import meta_columns
from chronolake_model.partition_paths import EMPTY_KEY, NULL_KEY

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


def bounded_columns(table: StoredTable, types: Mapping[str, str]) -> list[str]:
    """The columns whose bounds ``misfit`` compares; none if keys of these fields have no spelling."""
    names = table.config.record_key_fields
    if _pattern({name: types.get(name, "") for name in names}) is None:
        return []
    return [meta_columns.RECORD_KEY, *(names if len(names) == 1 else ())]


def misfit(table: StoredTable, types: Mapping[str, str], footers: Footers) -> str | None:
    """A record key in a latest base file that writers of Chronolake spell in another way, with its file.

    ``footers`` have the bounds of ``bounded_columns``. None if there is none, or if keys of these fields have
    no spelling. Files that cannot be read, or not within the time limit of ``footers``, have no keys here.
    """
    names = table.config.record_key_fields
    pattern = _pattern({name: types.get(name, "") for name in names})
    if pattern is None:
        return None
    field = names[0] if len(names) == 1 else None
    keys = [
        key
        for path, footer in footers.within_time(_latest(table))
        if not isinstance(footer, str)
        for key in _keys(path, footer, field)
    ]
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


def _latest(table: StoredTable) -> list[str]:
    """The base files of the latest slices, the newest first."""
    slices = logs.StoredSlices(table)
    latest = [
        (name.requested_time, file.path)
        for file, name in table.data_files
        if slices.is_latest_base(file.partition_path, name)
    ]
    return [path for _, path in sorted(latest, reverse=True)]


def _keys(path: str, footer: Footer, field: str | None) -> list[_Key]:
    """The smallest and the largest record key of a file."""
    texts = footer.bounds[meta_columns.RECORD_KEY]
    values = footer.bounds[field] if field else []
    return [_Key(path, text, value) for text, value in zip_longest(texts, values) if text is not None]
