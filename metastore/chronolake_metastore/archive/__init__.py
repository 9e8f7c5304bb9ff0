"""Archives of the log in object storage: written, merged, verified."""

from __future__ import annotations
