"""Tables and paragraphs of Markdown."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def flowed(text: str) -> str:
    """``text`` with a line per paragraph, and names in single backticks as Markdown has them."""
    paragraphs = (" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(paragraphs).replace("``", "`")


def meanings(choices: type) -> list[tuple[str, str]]:
    """The values of an enum with the docstrings below its members; empty unless each member has one."""
    [definition] = ast.parse(inspect.getsource(choices)).body
    assert isinstance(definition, ast.ClassDef)
    found = [
        (str(ast.literal_eval(member.value)), flowed(str(ast.literal_eval(below.value))))
        for member, below in itertools.pairwise(definition.body)
        if isinstance(member, ast.Assign)
        and isinstance(below, ast.Expr)
        and isinstance(member.value, ast.Constant)
    ]
    members = [member for member in definition.body if isinstance(member, ast.Assign)]
    if len(found) < len(members):
        return []
    return [(f"`{value}`", " ".join(meaning.split())) for value, meaning in found]
