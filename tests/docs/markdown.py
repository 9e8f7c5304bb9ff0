"""The contents of the documentation: pages, blocks of code, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
_FOLDERS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md", "tests/*.md")
PAGES = tuple(sorted(page for pattern in _FOLDERS for page in ROOT.glob(pattern)))

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>runs(?:: \w+)?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
_LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
_TABLE = re.compile(r"(?:^\|.*\n?)+", re.M)
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.M)
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


class Block(NamedTuple):
    """A fenced block of code; ``runs`` is how a test runs it (tests/README.md), empty if none does."""

    page: Path
    language: str
    runs: str
    code: str


def name_of(page: Path) -> str:
    """The page's path from the root of the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """The page's blocks of code, in order."""
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        mark = match["mark"] or ""
        runs = mark.partition(": ")[2] or (match["language"] if mark else "")
        yield Block(page, match["language"], runs, match["code"])


def introductions(page: Path) -> Iterator[tuple[Block, str]]:
    """The page's blocks of code, each with the paragraph before it."""
    text = page.read_text(encoding="utf-8")
    for block, match in zip(blocks(page), _BLOCK.finditer(text), strict=True):
        yield block, " ".join(text[: match.start()].rstrip().rpartition("\n\n")[2].split())


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def tables(page: Path) -> list[list[str]]:
    """The page's tables, each as its lines: a table ends at the first line that does not begin with a bar."""
    return [match[0].splitlines() for match in _TABLE.finditer(prose(page))]


def links(page: Path) -> list[str]:
    """Where the page's links go, those to other sites left out."""
    targets = [match["target"] for match in _LINK.finditer(prose(page))]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings: the texts that a link may have after the #."""
    texts = [match["text"].lower() for match in _HEADING.finditer(prose(page))]
    return {_NOT_IN_ANCHOR.sub("", text).replace(" ", "-") for text in texts}
