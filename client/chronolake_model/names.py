"""Names of namespaces and tables, and patterns of whole texts. A table is always called ``namespace.table``.

Python's ``$`` also matches before a line feed that ends the text; ECMAScript's, which the OpenAPI document is
written in, does not. Python's ``\\Z`` matches only at the end, and ECMAScript has no such word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$"
TABLE_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}\.[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$"

_END_IN_DOCUMENT = "$"
_END_IN_DECODER = r"\Z"
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


def decoder_pattern(pattern: str) -> str:
    """The pattern that the decoder matches as the document's ``pattern``, which ends in ``$``, says."""
    assert pattern.endswith(_END_IN_DOCUMENT)
    return pattern.removesuffix(_END_IN_DOCUMENT) + _END_IN_DECODER


def document_pattern(pattern: str) -> str:
    """The document's pattern for one of the decoder."""
    is_whole = pattern.endswith(_END_IN_DECODER)
    return pattern.removesuffix(_END_IN_DECODER) + _END_IN_DOCUMENT if is_whole else pattern
