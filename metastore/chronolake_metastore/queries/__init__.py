"""Reading: what the REST API shows, from the projections, each answer from one moment of the database."""

from __future__ import annotations
