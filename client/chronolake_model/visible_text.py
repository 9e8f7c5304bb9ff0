"""Text of others for terminals, and for logs that are read there: names of writers, reasons, paths, values.

A terminal executes control characters, as do those that change the direction of text. Both are shown as
escapes, as in Python, so that what is shown is what was written (CWE-150).
"""

from __future__ import annotations

from typing import Final

_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_EXECUTED: Final = (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS)
_KEPT: Final = "\t\n"
_ESCAPES: Final = {code: ascii(chr(code))[1:-1] for code in _EXECUTED if chr(code) not in _KEPT}
_ESCAPES_IN_JSON: Final = {code: f"\\u{code:04x}" for code in _EXECUTED if code >= 0x20}


def visible(text: str) -> str:
    """The text with escapes for characters that a terminal executes, but for tabs and ends of lines."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def visible_json(document: str) -> str:
    """The same JSON, with escapes for characters that a terminal executes."""
    return document.translate(_ESCAPES_IN_JSON)
