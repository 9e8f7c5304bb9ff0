"""The mount that an open folder lies in, to tell a mount below a base path from an ordinary folder.

A bind mount leads into any other folder, also of the same file system, so the device of a folder does not show
it. Linux gives each mount an id, and says for each open file which mount it was opened through.
"""

from __future__ import annotations

import os
import re
from typing import Final

_MOUNT_ID: Final = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)


def mount_of(descriptor: int) -> int:
    """The id of the mount that an open folder lies in; without Linux's /proc the id of its device."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
            match = _MOUNT_ID.search(file.read())
    except FileNotFoundError:
        match = None
    return os.fstat(descriptor).st_dev if match is None else int(match[1])
