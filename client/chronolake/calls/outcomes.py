"""Calls of the outcomes of idempotency keys."""

from __future__ import annotations

import re
import urllib.parse

from chronolake.calls.base import Call
from chronolake_model.outcomes import Outcome

_KEY = re.compile(r"(?=.{1,255}\Z)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def get(key: str) -> Call[Outcome]:
    """The outcome of the request with an idempotency key."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"an idempotency key is 1 to 255 printable ASCII characters, not {key!r}")
    # Dots too: proxies resolve "." and ".." in a path.
    return Call("GET", f"/v1/outcomes/{urllib.parse.quote(key, safe='').replace('.', '%2E')}", Outcome)
