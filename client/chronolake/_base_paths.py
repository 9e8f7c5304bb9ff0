"""Resolves local base paths before they are sent: only this process can do it."""

from __future__ import annotations

import os
import re

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f]")


def absolute(base_path: str) -> str:
    """A local path as the absolute path of the folder that it leads to; a URI as it is.

    A relative path and ``~`` are another folder in each process, and links may exist on this machine only. A
    path that the server refuses in any case is returned as it is.
    """
    if not base_path or _URI.match(base_path) or _CONTROL.search(base_path) or base_path != base_path.strip():
        return base_path
    return os.path.realpath(os.path.expanduser(base_path))
