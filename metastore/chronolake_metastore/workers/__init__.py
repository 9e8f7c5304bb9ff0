"""Background tasks of a server. A worker decides nothing: it sends commands."""

from __future__ import annotations
