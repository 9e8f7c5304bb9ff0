"""What a server does unasked, beside its requests. A worker decides nothing: it sends commands."""

from __future__ import annotations
