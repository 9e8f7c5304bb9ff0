"""Names of namespaces and tables. A table is always called ``namespace.table``."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$"
TABLE_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}\.[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$"

_TABLE_NAME = re.compile(TABLE_NAME_PATTERN, re.ASCII)


def listed(names: Sequence[str]) -> list[str]:
    """The names of a list; a text is one name."""
    return [names] if isinstance(names, str) else list(names)


def counted(count: int, noun: str) -> str:
    """A number of things, for people."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@functools.lru_cache(maxsize=16_384)
def split_table_name(name: str) -> tuple[str, str]:
    """Namespace and table of ``namespace.table``; raises ``ValueError`` when ``name`` is no such thing."""
    if not _TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"a table is named namespace.table (letters, digits, _ and -, 128 at most each), not {name!r}"
        )
    namespace, _, table = name.partition(".")
    return namespace, table
