"""The Spark session of the whole run, for the examples too."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
