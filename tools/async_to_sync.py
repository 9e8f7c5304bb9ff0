"""Generates ``chronolake._sync`` from ``chronolake._async``; ``make check`` compares it with the present one.

The rules go by tokens, so comments and layout stay. ``async`` and ``await`` are left out, and names that begin
with ``Async`` lose that. Code that differs otherwise stands in ``chronolake._concurrency``: two modules with
the same names, one for each client. See docs/decisions/0035-one-client.md.
"""

from __future__ import annotations

import io
import keyword
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenInfo
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "client/chronolake/_async"
TARGET: Final = ROOT / "client/chronolake/_sync"

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


def main(arguments: Sequence[str]) -> int:
    """Write the package; with ``--check`` only say which files differ. Gives the exit code."""
    generated = {name: formatted(text, TARGET / name) for name, text in package().items()}
    if arguments == ["--check"]:
        differing = [
            name for name in sorted(generated | present()) if present().get(name) != generated.get(name)
        ]
        for name in differing:
            print(f"{(TARGET / name).relative_to(ROOT)} differs from its source: run `make sync`")
        return 1 if differing else 0
    TARGET.mkdir(exist_ok=True)
    for name in present().keys() - generated.keys():
        (TARGET / name).unlink()
    for name, text in generated.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    return 0


def present() -> dict[str, str]:
    """The package as checked in: the text of each file by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}


def package() -> dict[str, str]:
    """The package as generated, not yet formatted."""
    return {
        path.name: HEADER.format(name=path.name) + to_sync(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.glob("*.py"))
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


def formatted(source: str, path: Path) -> str:
    """The module as ruff formats it, without imports that are not used any more."""
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--fix-only", "--select", "F401,I"], ["format"]):
        done = subprocess.run(
            [ruff, *command, "--quiet", "--stdin-filename", path, "-"],
            cwd=ROOT,
            input=source,
            capture_output=True,
            text=True,
            check=True,
        )
        source = done.stdout
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
