"""The values of partition columns in a partition path.

Paths are in hive style, ``month=2026-02/country=DE``, and escaped like Hive's, unless the table's properties
say otherwise. A path of another form says nothing, so every test could be true of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from chronolake_metastore.domain.literals import LiteralKind, Value, parse
from chronolake_model.partition_paths import DEFAULT_SPELLING, Spelling

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

Candidates = tuple[Value | None, ...]
"""The values that a partition column may have, null among them."""

_ESCAPE: Final = re.compile(r"%([0-7][0-9A-F])")
_INTEGER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def candidates(
    folder: str, column: str, kind: LiteralKind, spelling: Spelling = DEFAULT_SPELLING
) -> Candidates | None:
    """The values of the column in a folder of a partition path; None if the folder does not show them."""
    text = text_of(folder, column, spelling)
    if text is None:
        return None
    if text == NULL_PARTITION:
        # A null, an empty string, and the string with this text have one folder.
        return (None, "", NULL_PARTITION) if kind is LiteralKind.STRING else (None,)
    value = _unescaped(text) if spelling.url_encode else text
    # A writer may have escaped it nevertheless.
    if not value or (not spelling.url_encode and "%" in value):
        return None
    try:
        return (_READERS[kind](value),)
    except (ValueError, OverflowError, KeyError):
        return None


def text_of(folder: str, column: str, spelling: Spelling = DEFAULT_SPELLING) -> str | None:
    """The column's value as text in a folder's name; None if it has another column, or is in another style."""
    if not spelling.hive_style:
        return folder
    name, equals, text = folder.partition("=")
    return text if equals and column in (name, _unescaped(name)) else None


def _unescaped(text: str) -> str | None:
    """``text`` without Hive's escapes; None if it is not escaped by Hive's rules."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return None if "%" in _ESCAPE.sub("", text) else plain


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _timestamp(text: str) -> datetime:
    # Hudi's writers spell microseconds since 1970.
    if _INTEGER.fullmatch(text):
        return _EPOCH + timedelta(microseconds=int(text))
    value = parse(LiteralKind.TIMESTAMP, text)
    assert isinstance(value, datetime)
    return value


_READERS: Final[dict[LiteralKind, Callable[[str], Value]]] = {
    LiteralKind.BOOLEAN: _boolean,
    LiteralKind.INTEGER: _integer,
    LiteralKind.DECIMAL: lambda text: parse(LiteralKind.DECIMAL, text),
    LiteralKind.STRING: str,
    LiteralKind.DATE: lambda text: parse(LiteralKind.DATE, text),
    LiteralKind.TIMESTAMP: _timestamp,
    LiteralKind.TIMESTAMP_NTZ: lambda text: parse(LiteralKind.TIMESTAMP_NTZ, text.replace(" ", "T", 1)),
}
"""How Spark writes values as text; floats, binary and nested values name no partitions."""
