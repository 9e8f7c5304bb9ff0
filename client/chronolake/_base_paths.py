"""Resolves local base paths before they are sent: they depend on the machine and the working directory."""

from __future__ import annotations

import os
import re

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f]")


def absolute(base_path: str) -> str:
    """The absolute path of a local path, with links resolved; a URI is returned unchanged.

    A relative path and ``~`` mean different folders in different processes, and links may exist only on this
    machine. An invalid path is returned unchanged, and the server refuses it.
    """
    if not base_path or _URI.match(base_path) or _CONTROL.search(base_path) or base_path != base_path.strip():
        return base_path
    return os.path.realpath(os.path.expanduser(base_path))
