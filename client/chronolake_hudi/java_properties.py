"""Text of ``java.util.Properties``, which Hudi keeps its tables' and partitions' properties in.

One ``key=value`` a line, in ISO 8859-1; other characters are ``\\uXXXX``. A line that begins with ``#`` or
``!`` is a comment. A backslash escapes the next character, and at the end of a line it continues the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from chronolake_hudi.errors import DamagedFile

_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES: Final = {text: f"\\{letter}" for letter, text in _LETTERS.items()} | {"\\": "\\\\"}
_KEY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_ADVICE: Final = "restore the file from a copy, or let the writer of the table write it again"


def encode(properties: Mapping[str, str], comment: str) -> bytes:
    """The properties in the order of their keys, after a comment of one line.

    Values are escaped as little as Java needs, because hudi-rs does not undo escapes.
    """
    assert "\n" not in comment
    lines = [
        f"#{comment}",
        *(f"{_escape_key(key)}={_escape(value)}" for key, value in sorted(properties.items())),
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def decode(content: bytes, path: str) -> dict[str, str]:
    """The properties in the file ``path``. Of a key that is there twice the last value counts.

    Raises ``DamagedFile`` when an escape is cut off.
    """
    properties = {}
    for line in _logical_lines(content.decode("latin-1")):
        match = _KEY.match(line)
        assert match is not None
        properties[_unescape(match[1], path)] = _unescape(line[match.end() :], path)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    continued: str | None = None
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if continued is None and (not stripped or stripped[0] in "#!"):
            continue
        logical_line = (continued or "") + stripped
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        continued = logical_line[:-1] if backslashes % 2 else None
        if continued is None:
            yield logical_line
    if continued is not None:
        yield continued


def _unescape(text: str, path: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] is None:
            return _LETTERS.get(match[2], match[2])
        if not re.fullmatch(r"[0-9A-Fa-f]{4}", match[1]):
            raise DamagedFile(path, f"the escape {match[0]!r} is cut off", _ADVICE)
        return chr(int(match[1], 16))

    # Characters beyond the basic plane are two escapes, the halves of a surrogate pair.
    return _ESCAPED.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape_key(key: str) -> str:
    return "".join(f"\\{letter}" if letter in " =:#!" else _escape_character(letter) for letter in key)


def _escape(text: str) -> str:
    escaped = "".join(_escape_character(character) for character in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
