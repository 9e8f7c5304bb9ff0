"""Pages that end at a number of entries or at a number of bytes, whichever comes first.

Entries are fetched in portions, so that the server never holds many more of them than the page gets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

SMALL_ROWS_AT_ONCE: Final = 1_000
"""Entries fetched at once if each has only names, so a few KiB at most."""
LARGE_ROWS_AT_ONCE: Final = 50
"""Entries fetched at once if each has metadata or a schema."""

Row = TypeVar("Row")


async def collect(
    fetch: Callable[[Row | None, int], Awaitable[Sequence[Row]]],
    size_of: Callable[[Row], int],
    limit: int,
    bytes_max: int,
    portion: int,
) -> tuple[list[Row], bool]:
    """The entries of a page, and whether more may follow. A page has at least one entry, if there is one.

    ``fetch(last, number)`` reads the next ``number`` entries after ``last``, or from the start of the page when
    ``last`` is none. ``size_of`` gives the bytes of an entry as JSON. ``portion`` bounds ``number``.
    """
    page: list[Row] = []
    size_bytes = 0
    while len(page) < limit:
        number = min(portion, limit - len(page))
        rows = await fetch(page[-1] if page else None, number)
        for row in rows:
            size_bytes += size_of(row)
            if page and size_bytes > bytes_max:
                return page, True
            page.append(row)
        if len(rows) < number:
            return page, False
    return page, True


def json_bytes(document: object) -> int:
    """The length of a document as JSON in bytes, and the comma after it."""
    return len(msgspec.json.encode(document)) + 1


def cut(rows: Sequence[Row], size_of: Callable[[Row], int], bytes_max: int) -> list[Row]:
    """The first of ``rows`` that fit into ``bytes_max``; at least one, if there is one."""
    size_bytes = 0
    for number, row in enumerate(rows):
        size_bytes += size_of(row)
        if number and size_bytes > bytes_max:
            return list(rows[:number])
    return list(rows)
