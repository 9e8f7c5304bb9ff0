"""The command line of the server."""

from __future__ import annotations
