"""The rules by which the blocking client is generated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chronolake
from tools import async_to_sync
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


def test_a_stale_a_missing_and_a_superfluous_file_are_found_and_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = (tmp_path / "client/chronolake" / name for name in ("_async", "_sync"))
    source.mkdir(parents=True)
    for name in ("kept", "changed", "added", "removed"):
        (source / f"{name}.py").write_text("async def f(): ...\n")
    (source / "added.py").rename(tmp_path / "added.py")
    assert async_to_sync.main([], tmp_path) == 0
    (tmp_path / "added.py").rename(source / "added.py")
    (source / "changed.py").write_text("async def g(): ...\n")
    (source / "removed.py").unlink()

    assert async_to_sync.main(["--check"], tmp_path) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        f"client/chronolake/_sync/{name}.py" for name in ("added", "changed", "removed")
    ]
    assert async_to_sync.main([], tmp_path) == 0
    assert async_to_sync.main(["--check"], tmp_path) == 0
    assert (target / "changed.py").read_text().endswith("def g(): ...\n")
    assert sorted(path.name for path in target.iterdir()) == ["added.py", "changed.py", "kept.py"]


def test_a_checkout_without_the_blocking_client_says_how_to_generate_it(tmp_path: Path) -> None:
    package = Path(chronolake.__file__).parent
    for path in (package, *package.parent.glob("chronolake_*")):
        (tmp_path / path.name).mkdir()
        for file in path.glob("*"):
            if file.name not in ("_sync", "__pycache__"):
                (tmp_path / path.name / file.name).symlink_to(file)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from chronolake import connect"

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.stderr.splitlines()[-1].startswith(
        "ImportError: the blocking client of this checkout is missing or old"
    )
    assert "make sync" in ended.stderr
