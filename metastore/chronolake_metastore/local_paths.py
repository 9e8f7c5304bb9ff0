"""Local base paths as this machine sees them: links lead to the folder that they are compared by."""

from __future__ import annotations

import asyncio
import os

from chronolake_metastore import errors
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location


async def resolved_key(base_path: str) -> str | None:
    """The key of a local base path with its links resolved; None for other paths, and for one that has no key.

    Raises ``InvalidTable`` when a link is there that the server may not, or cannot, read. A server on another
    machine sees no links: there the claim in storage tells two tables apart.
    """
    try:
        location = base_paths.parse(base_path)
    except ValueError:
        return None
    if location.kind is not Kind.FILE:
        return None
    try:
        real = await asyncio.to_thread(os.path.realpath, location.path)
    except OSError as exc:
        raise errors.InvalidTable(
            f"the base path {base_path[:200]!r} cannot be compared with those of other tables: the server "
            f"cannot read a link in it ({exc.strerror}); choose a base path without that link"
        ) from exc
    try:
        real.encode()
    except UnicodeEncodeError:
        # A link leads to a name that is not UTF-8, which the database cannot keep.
        return None
    return Location(Kind.FILE, "", real).key
