"""Tables and paragraphs of Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def flowed(text: str) -> str:
    """``text`` with a line per paragraph, and names in single backticks as Markdown has them."""
    paragraphs = (" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(paragraphs).replace("``", "`")
