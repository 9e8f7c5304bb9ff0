"""Consoles that show text of other users, and execute none of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from chronolake_model.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


def console(file: IO[str], width: int | None = None) -> Console:
    """A console that shows text as ``visible``."""
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
