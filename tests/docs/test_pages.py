"""Everything that a page names exists: links, make targets, commands and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import command_lines, markdown
from tests.docs.markdown import PAGES, ROOT

each_page = pytest.mark.parametrize("page", PAGES, ids=markdown.name_of)
_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_BAR = re.compile(r"(?<!\\)\|")
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [link for link in markdown.links(page) if not _leads_somewhere(page, link)]
    assert broken == []


@each_page
def test_every_table_has_a_head_and_rows_of_its_width(page: Path) -> None:
    broken = [
        line
        for lines in markdown.tables(page)
        for line in (lines if len(lines) < 2 or not _RULE.fullmatch(lines[1]) else _of_other_width(lines))
    ]
    assert broken == []


@each_page
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.M))
    assert named - _TARGETS == set()


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    helped = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    # make test runs the suite beside the checks.
    assert _TARGETS - helped == {"suite"}


@each_page
def test_every_command_line_that_is_shown_exists(page: Path) -> None:
    scripts = [block.code for block in markdown.blocks(page) if block.language == "sh"]
    lines = [line for script in scripts for line in command_lines.shown(script)]
    assert [(line, unknown) for line in lines if (unknown := command_lines.unknown_words(*line))] == []


@each_page
def test_every_python_block_compiles(page: Path) -> None:
    for block in markdown.blocks(page):
        if block.language == "python":
            compile(block.code, markdown.name_of(page), "exec")


@each_page
def test_a_python_block_that_no_test_runs_is_called_a_fragment(page: Path) -> None:
    if page.parent.name != "reference":
        unmarked = [
            (block.code, introduction)
            for block, introduction in markdown.introductions(page)
            if block.language == "python" and not block.runs and "fragment" not in introduction.lower()
        ]
        assert unmarked == []


@pytest.mark.parametrize(
    "pattern", [r"(?:create_table\(\s*(?:client,\s*)?|\"name\": )\"(\w+\.\w+)", r"\"(/tmp/[^\"]+)\""]
)
def test_no_two_pages_make_one_table_or_use_one_folder(pattern: str) -> None:
    made = [
        (name, markdown.name_of(page))
        for page in PAGES
        for name in {
            found
            for block in markdown.blocks(page)
            if block.runs not in ("", "readme")
            for found in re.findall(pattern, block.code)
        }
    ]
    names = [name for name, _ in made]
    assert len(names) >= 10
    assert sorted(pair for pair in made if names.count(pair[0]) > 1) == []


def _of_other_width(lines: list[str]) -> list[str]:
    width = len(_BAR.findall(lines[0]))
    return [line for line in lines if len(_BAR.findall(line)) != width]


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in markdown.anchors(target))
