"""Generates ``chronolake._sync`` from ``chronolake._async``: in each build, in ``make sync``, before tests.

The rules go by tokens, so comments and layout stay. ``async`` and ``await`` are left out, and names that begin
with ``Async`` lose that. Code that differs otherwise stands in ``chronolake._concurrency``: two modules with
the same names, one for each client. Only the standard library: builds have nothing else. See
docs/decisions/0035-one-client.md.
"""

from __future__ import annotations

import io
import keyword
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenInfo
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = "client/chronolake/_async"
TARGET: Final = Path("client/chronolake/_sync")

HEADER: Final = "# Generated from chronolake/_async/{name} by tools/async_to_sync.py: do not edit.\n"

NAMES: Final = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "_async": "_sync",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_text": "iter_text",
    "anext": "next",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "aclose": "close",
    "awaiting": "blocking",
    "connect_async": "connect",
}
"""Names that differ, but for those that begin with ``Async``."""

PROSE: Final = (
    (re.compile(r"\n\n +Async only: (?:.|\n(?! *(?:\n|\"\"\")))*"), ""),
    (re.compile(r"async with await "), "with "),
    (re.compile(r"async (with|for) "), r"\1 "),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\bAsync(?=[A-Z])"), ""),
    (re.compile(r"\bconnect_async\b"), "connect"),
    (re.compile(r"Tasks of one event loop"), "Threads"),
)
"""Replacements in docstrings and comments; a paragraph that begins with "Async only" is left out."""

_LAYOUT: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
_ASYNC_PREFIX: Final = re.compile(r"Async(?=[A-Z])")
Edit = tuple[int, int, str]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the package; with ``--check`` only print which files differ. Returns the exit code."""
    generated, written = package(root), present(root)
    differing = sorted(name for name in generated | written if generated.get(name) != written.get(name))
    if arguments == ["--check"]:
        for name in differing:
            print(f"{TARGET / name} differs from its source: run `make sync`")
        return 1 if differing else 0
    (root / TARGET).mkdir(exist_ok=True)
    for name in differing:
        write(root / TARGET / name, generated.get(name))
    return 0


def write(path: Path, text: str | None) -> None:
    """Replace or remove a file, so that a process that imports it at the same time sees a whole one."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def present(root: Path) -> dict[str, str]:
    """The package as it was written last: the text of each file by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in (root / TARGET).glob("*.py")}


def package(root: Path) -> dict[str, str]:
    """The package as generated."""
    return {
        path.name: HEADER.format(name=path.name) + to_sync(path.read_text(encoding="utf-8"))
        for path in sorted((root / SOURCE).glob("*.py"))
    }


def to_sync(source: str) -> str:
    """A module of the blocking client, of one for an event loop."""
    text = Text(source)
    for start, end, replacement in sorted(text.edits(), reverse=True):
        source = source[:start] + replacement + source[end:]
    return source


class Text:
    """The tokens of a module, and the replacements by offset."""

    def __init__(self, source: str) -> None:
        self._tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def edits(self) -> Iterator[Edit]:
        """The replacements; no two overlap."""
        for index, token in enumerate(self._tokens):
            start, end = self._offset(token.start), self._offset(token.end)
            if token.type == tokenize.COMMENT or _is_docstring(token):
                yield start, end, _prose(token.string)
            elif token.string in ("async", "await"):
                yield start, self._offset(self._tokens[index + 1].start), ""
            elif token.string == "Awaitable" and self._tokens[index + 1].string == "[":
                yield start, self._offset(self._tokens[index + 1].end), ""
                closing = self._tokens[self._closing(index + 1)]
                yield self._offset(closing.start), self._offset(closing.end), ""
            elif token.type == tokenize.NAME:
                yield start, end, NAMES.get(token.string) or _ASYNC_PREFIX.sub("", token.string)
            elif token.string == "(" and self._only_groups_await(index):
                closing = self._tokens[self._closing(index)]
                yield start, end, ""
                yield self._offset(closing.start), self._offset(closing.end), ""

    def _only_groups_await(self, index: int) -> bool:
        """Whether this opens ``(await operand)``, which needs no parentheses without ``await``."""
        if self._tokens[index + 1].string != "await" or _is_operand_end(self._tokens[index - 1]):
            return False
        at = index + 2
        while at < self._closing(index):
            token = self._tokens[at]
            if token.string in ("(", "["):
                at = self._closing(at)
            elif token.type in _LAYOUT or (token.string != "." and not _is_identifier(token)):
                return False
            at += 1
        return True

    def _closing(self, index: int) -> int:
        """The index of the bracket that closes the one at ``index``."""
        depth = 0
        for at in range(index, len(self._tokens)):
            if self._tokens[at].type == tokenize.OP:
                depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self._tokens[at].string, 0)
            if depth == 0:
                return at
        raise ValueError("a bracket is not closed")

    def _offset(self, position: tuple[int, int]) -> int:
        row, column = position
        return self._lines[row - 1] + column


def _is_docstring(token: TokenInfo) -> bool:
    return token.type == tokenize.STRING and token.string.startswith('"""')


def _is_identifier(token: TokenInfo) -> bool:
    return token.type == tokenize.NAME and not keyword.iskeyword(token.string)


def _is_operand_end(token: TokenInfo) -> bool:
    return token.string in (")", "]") or token.type == tokenize.STRING or _is_identifier(token)


def _prose(text: str) -> str:
    for pattern, replacement in PROSE:
        text = pattern.sub(replacement, text)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
