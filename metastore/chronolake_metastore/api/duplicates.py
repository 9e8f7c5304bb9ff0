"""Objects with a member twice are refused, because readers of JSON disagree about which of the two counts."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

BYTES_MAX: Final = 1024 * 1024
"""Bodies up to this size are searched: searching takes several times the memory of the body."""


def find(body: bytes) -> str | None:
    """A name that an object of this valid JSON document has twice; none, too, when the document is longer.

    Every member has one colon outside of strings. A decoder drops all but the last member of a name, so the
    document that is decoded and encoded again has fewer colons if a name was there twice, and as many if not.
    """
    if len(body) > BYTES_MAX:
        return None
    # An escaped colon is a plain one when it is encoded again.
    is_countable = b"\\u003" not in body
    if is_countable and msgspec.json.encode(msgspec.json.decode(body)).count(b":") == body.count(b":"):
        return None
    return _search(body)


class _DuplicateKey(Exception):
    """The name that is there twice."""


def _search(body: bytes) -> str | None:
    try:
        json.loads(body, object_pairs_hook=_members, parse_int=str, parse_float=str)
    except _DuplicateKey as duplicate:
        return str(duplicate)
    return None


def _members(pairs: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise _DuplicateKey(name)
        names.add(name)
