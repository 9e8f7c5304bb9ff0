"""The columns that a text of DDL states, such as ``id BIGINT NOT NULL, price DECIMAL(10,2)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from chronolake_model import column_types
from chronolake_model.tables import Field

_NAME: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s`:,<>()]+)\s*:?\s*(.*)", re.DOTALL)
_NOT_NULL: Final = re.compile(r"\s+NOT\s+NULL\s*\Z", re.IGNORECASE)
_WORD: Final = re.compile(r"`(?:[^`]|``)*`|\b(?P<word>[A-Za-z_]+)\b(?!\s*:)(?P<sizes>\s*\(\s*\d+\s*\))?")
_SYNONYMS: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
"""Other names of types in SQL."""


def fields_of(text: str) -> list[Field]:
    """The columns. Raises ``ValueError``, saying why, for a text of another form."""
    fields = [_field(part) for part in _parts(text)]
    names = [field.name.lower() for field in fields]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"it names {', '.join(repeated)} more than once")
    return fields


def _field(text: str) -> Field:
    match = _NAME.fullmatch(text)
    if match is None or not match[2].strip():
        raise ValueError(f"{text.strip()!r} is no column with its type")
    name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
    type_ = _NOT_NULL.sub("", match[2])
    spelled = column_types.spell(column_types.parse(_WORD.sub(_own_name, type_)))
    return Field(name, spelled, nullable=type_ == match[2])


def _own_name(match: re.Match[str]) -> str:
    if match["word"] is None:
        return match[0]
    word = match["word"].lower()
    name = _SYNONYMS.get(word, word)
    if name != "decimal":
        return name + (match["sizes"] or "")
    if match["sizes"]:
        return f"decimal{match['sizes'].rstrip(' )')},0)"
    is_bare = not match.string[match.end() :].lstrip().startswith("(")
    return "decimal(10,0)" if is_bare else name


def _parts(text: str) -> Iterator[str]:
    """The columns of the text, which commas separate outside of brackets and quotes."""
    depth, start, in_quotes = 0, 0, False
    for position, char in enumerate(text):
        in_quotes ^= char == "`"
        if in_quotes:
            continue
        depth += (char in "(<") - (char in ")>")
        if char == "," and not depth:
            yield text[start:position]
            start = position + 1
    yield text[start:]
