"""The only SQL of the server: the log, the clocks, the projections, and the transactions around them."""

from __future__ import annotations
