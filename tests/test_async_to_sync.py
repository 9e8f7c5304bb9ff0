"""The rules by which the blocking client is generated."""

from __future__ import annotations

import pytest

from tools.async_to_sync import to_sync


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def f():\n    await g()\n", "def f():\n    g()\n"),
        ("x = (await f(a)).b[0]\n", "x = f(a).b[0]\n"),
        ("x = g(await f())\n", "x = g(f())\n"),
        ("x = (await f() or 1)\n", "x = (f() or 1)\n"),
        ("x = [y async for y in f()]\n", "x = [y for y in f()]\n"),
        ("async with await f() as g:\n    pass\n", "with f() as g:\n    pass\n"),
        ("f: Callable[[], Awaitable[list[int]]]\n", "f: Callable[[], list[int]]\n"),
        ("x: AsyncIterator[AsyncTable]\n", "x: Iterator[Table]\n"),
        ("from chronolake._async.write import AsyncWrite\n", "from chronolake._sync.write import Write\n"),
        ("async def __aenter__(self): ...\n", "def __enter__(self): ...\n"),
        ("x = 'await'  # as AsyncTable does\n", "x = 'await'  # as Table does\n"),
    ],
)
def test_code_is_generated(source: str, expected: str) -> None:
    assert to_sync(source) == expected


def test_prose_is_generated() -> None:
    source = '''class AsyncWrite:
    """As ``AsyncTable``: ``async with await table.begin()``. Tasks of one event loop may share it.

    Async only: a paragraph
    of two lines.

    The rest.
    """
'''
    assert (
        to_sync(source)
        == '''class Write:
    """As ``Table``: ``with table.begin()``. Threads may share it.

    The rest.
    """
'''
    )
