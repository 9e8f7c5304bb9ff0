"""The reference of the auditor's views, from their comments in the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from chronolake_migrations import scripts
from docs import markdown_text

_COMMENT: Final = re.compile(
    r"^COMMENT ON (COLUMN|FUNCTION|TABLE|VIEW) chronolake\.([\w.]+) IS '((?:[^']|'')*)';$", re.MULTILINE
)


def lines() -> Iterator[str]:
    """The lines of the page: a section for each view, function and table, with its columns."""
    yield from (
        "# The views of auditors",
        "",
        "[Audit with SQL](../audit.md) has examples, and the columns that mean the same in all views. "
        "PostgreSQL has these texts as comments: `\\d+ chronolake.audit_history` in `psql` shows them.",
    )
    columns: list[tuple[str, str]] = []
    for kind, name, text in _COMMENT.findall(scripts.read("comments.sql").decode()):
        meaning = text.replace("''", "'")
        if kind == "COLUMN":
            columns.append((f"`{name.partition('.')[2]}`", meaning))
            continue
        yield from _table(columns)
        yield from ("", f"## `{name}`", "", meaning)
        columns = []
    yield from _table(columns)


def _table(columns: list[tuple[str, str]]) -> Iterator[str]:
    if columns:
        yield ""
        yield from markdown_text.table(("column", "meaning"), columns)
