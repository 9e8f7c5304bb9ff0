"""Read queries of the REST API: they read the projections, each in one database snapshot."""

from __future__ import annotations
