"""Archives of the log in object storage: written, merged, verified, read."""

from __future__ import annotations
