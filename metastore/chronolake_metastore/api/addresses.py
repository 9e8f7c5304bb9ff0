"""The address of a request: each part of the path is decoded by itself, so that parts stay parts.

A server that decodes the whole path first takes ``orders%2Finstants`` for two parts, and routes it elsewhere.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from litestar.types import Scope

_ENCODED_SLASH: Final = re.compile(rb"%2[fF]")
_KEYS: Final = b"/v1/outcomes/"
"""Below this, the rest of the path is one idempotency key, which may hold slashes in any place."""
_NOWHERE: Final = "/.."
"""A path that no route has."""
_SAFE: Final = "/%:@!$&'()*+,;=~-._"


def sent(scope: Scope) -> str:
    """The path as it was sent, percent-encoded, so that it is always a valid reference to a URI."""
    return quote(scope["raw_path"], safe=_SAFE)


def decoded_path(raw: bytes, decoded: str) -> str:
    """The path to route by. An encoded slash stays encoded, which no name and no time may hold."""
    if not raw.startswith(b"/"):
        return _NOWHERE
    if (b"//" in raw or raw.endswith(b"/")) and not raw.startswith(_KEYS):
        # An empty part is a parameter that was left empty, and not the list that the path without it is.
        return _NOWHERE
    if _ENCODED_SLASH.search(raw) is None:
        return decoded
    return unquote(_ENCODED_SLASH.sub(b"%252F", raw).decode(errors="replace"))
