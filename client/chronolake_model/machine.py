"""This machine, as client and server name it: its own addresses, and the user of a process."""

from __future__ import annotations

import getpass
import ipaddress
import os
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_trustworthy(url: str) -> bool:
    """Whether the answer of a URL cannot be changed on the way: by https, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    )


def user() -> str:
    """The name of the user, or the id of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id without an entry in the passwd file.
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"
