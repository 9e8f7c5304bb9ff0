"""Text of other users at a terminal: names of writers, reasons, properties and values are free text.

A terminal executes control characters, as do those that change the direction of text. Both are shown as
escapes, as in Python, so that what is printed is what was written (CWE-150).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

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


def console(file: IO[str], width: int | None = None) -> Console:
    """A console that shows text of others as ``visible``."""
    from rich.console import Console  # noqa: PLC0415  # slow

    made = Console(file=file, highlight=False, width=width)
    made.push_render_hook(_VisibleText())  # type: ignore[arg-type]  # its class is slow to import
    return made


class _VisibleText:
    """A ``rich.console.RenderHook``."""

    def process_renderables(self, renderables: Iterable[Any]) -> list[Any]:
        return [_Visible(renderable) for renderable in renderables]


class _Visible:
    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._shown, options):
            # The console's own control codes, as of a bar of progress, are segments of their own.
            yield segment if segment.control else segment._replace(text=visible(segment.text))
