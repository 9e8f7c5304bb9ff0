"""The projections: the rows that follow from the log, each with its loading, its evolution and its writing."""

from __future__ import annotations
