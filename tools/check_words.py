"""Part of ``make check``: the words of docstrings and pages (CONTRIBUTING.md, Style), and their width.

Many readers have English as their third language. So a docstring begins with a noun or a verb, and
``WORDS`` has phrases with a plainer form.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
WIDTH: Final = 100
FILES: Final = (
    *(f"{folder}/**/*.py" for folder in ("client", "metastore", "spark_integration", "migrations", "examples")),
    *(f"{folder}/**/*.py" for folder in ("benchmarks", "docs", "tests", "tools")),
    *("*.md", "docs/**/*.md", "tests/*.md", "benchmarks/*.md", "examples/**/*.md"),
)
GENERATED: Final = ("docs/reference/", "client/chronolake/_sync/")
BEGINNING: Final = re.compile(r"\s*(What|Who|Whose|Of|Those|That)\b")
WORDS: Final = {
    r"\bso many\b": "this number of",
    r"\bof the latter\b": "the noun",
    r"\blook(?:s|ed|ing)? ahead\b": "prefetch",
    r"\b(?:is|are|be|was|were|went|gone|goes) away\b": "unavailable, or deleted",
    r"\bbehind\b(?! (?:a|one|the) proxy\b)": "after",
    r"\b(?:server|worker|reaper|deleter|sweeper|publisher)s? (?:looks?|rests?|sleeps?)\b": "runs or waits",
}
"""Phrases, and the plainer form that a finding names."""
_CODE: Final = re.compile(r"(`+).*?\1", re.DOTALL)
_NOT_PROSE: Final = re.compile(r" {4}|\s*(?:\||#|<)")
_ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_TOKEN: Final = re.compile(r"(?:\[[^\]]*\]\([^)\s]*\)|`[^`]*`|\S)+")


def main(root: Path = ROOT) -> int:
    """Print the findings in all files. The exit code is 1 if there are any."""
    found = [finding for path in files(root) for finding in findings(path, (root / path).read_text("utf-8"))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def files(root: Path) -> Iterator[str]:
    """The modules and pages that are written by hand."""
    for pattern in FILES:
        for file in sorted(root.glob(pattern)):
            path = file.relative_to(root).as_posix()
            if not path.startswith(GENERATED):
                yield path


def findings(path: str, text: str) -> Iterator[str]:
    """The findings in a module or a page, each with its place."""
    for line, part in docstrings(text) if path.endswith(".py") else paragraphs(text):
        problems = [*phrases(part), *(beginnings(part) if path.endswith(".py") else wide_lines(part))]
        yield from (f"{path}:{line}: {problem}" for problem in problems)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, also those below attributes, with their lines."""
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    for statement in statements:
        match statement.value:
            case ast.Constant(value=str(docstring)):
                yield statement.lineno, docstring
            case _:
                pass


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a page without code, tables and headings, with their lines."""
    in_code = False
    part: list[str] = []
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        is_prose = bool(line.strip()) and not in_code and not is_fence and (part or not _NOT_PROSE.match(line))
        if part and (not is_prose or _ITEM.match(line)):
            yield number - len(part), "\n".join(part)
            part = []
        if is_prose:
            part.append(line)
        in_code ^= is_fence


def phrases(text: str) -> Iterator[str]:
    """The phrases of ``WORDS`` in a text, outside of code."""
    prose = " ".join(_CODE.sub("", text).split())
    for pattern, plainer in WORDS.items():
        for found in re.finditer(pattern, prose, re.IGNORECASE):
            yield f"write {plainer}, not {found[0]!r}"


def beginnings(docstring: str) -> Iterator[str]:
    """The first word of a docstring, if it is none of those that a docstring may begin with."""
    if found := BEGINNING.match(docstring):
        yield f"a docstring begins with a noun or a verb, not with {found[1]}"


def wide_lines(paragraph: str) -> Iterator[str]:
    """The lines that are too long, but for one long link or name."""
    for line in paragraph.splitlines():
        if len(line) > WIDTH and len(_TOKEN.findall(_ITEM.sub("", line, count=1))) > 1:
            yield f"wrap prose at {WIDTH} columns: {line.strip()[:40]}"


if __name__ == "__main__":
    sys.exit(main())
