"""Local base paths as this machine sees them: links lead to the folder that they are compared by."""

from __future__ import annotations

import asyncio
import os

from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location


async def resolved_key(base_path: str) -> str | None:
    """The key of a local base path with its links resolved; None of any other, and of what has no key.

    A server on another machine sees no links: there the claim in storage tells two tables apart.
    """
    try:
        location = base_paths.parse(base_path)
    except ValueError:
        return None
    if location.kind is not Kind.FILE:
        return None
    real = await asyncio.to_thread(os.path.realpath, location.path)
    try:
        real.encode()
    except UnicodeEncodeError:
        # A link leads to a name that is not UTF-8, which the database cannot keep.
        return None
    return Location(Kind.FILE, "", real).key
