"""Pages that end at a number of entries or at a number of bytes, whichever comes first.

Entries are fetched in portions, so that the server never holds many more of them than the page gets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

SMALL_ROWS_AT_ONCE: Final = 1_000
"""Entries that are names, fetched at once: some KiB each at most."""
LARGE_ROWS_AT_ONCE: Final = 50
"""Entries with metadata or a schema, fetched at once."""

Row = TypeVar("Row")


async def collect(
    fetch: Callable[[Row | None, int], Awaitable[Sequence[Row]]],
    size_of: Callable[[Row], int],
    limit: int,
    bytes_max: int,
    portion: int,
) -> tuple[list[Row], bool]:
    """The entries of a page, one at least if there are any, and whether there may be more behind them.

    ``fetch`` gives so many entries behind one, or the first of the page; ``size_of`` the bytes of one as JSON.
    """
    page: list[Row] = []
    size_bytes = 0
    while len(page) < limit:
        wanted = min(portion, limit - len(page))
        rows = await fetch(page[-1] if page else None, wanted)
        for row in rows:
            size_bytes += size_of(row)
            if page and size_bytes > bytes_max:
                return page, True
            page.append(row)
        if len(rows) < wanted:
            return page, False
    return page, True


def json_bytes(document: object) -> int:
    """The length of a document as JSON, with the comma behind it."""
    return len(msgspec.json.encode(document)) + 1


def cut(rows: Sequence[Row], size_of: Callable[[Row], int], bytes_max: int) -> list[Row]:
    """The first of ``rows`` that fit into so many bytes; one at least if there are any."""
    size_bytes = 0
    for number, row in enumerate(rows):
        size_bytes += size_of(row)
        if number and size_bytes > bytes_max:
            return list(rows[:number])
    return list(rows)
