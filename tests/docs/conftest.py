"""The Spark session of the whole run, and servers with an embedded database, for the examples too."""

from __future__ import annotations

from tests.server.test_embedded import data_dir, serve
from tests.spark.conftest import spark

__all__ = ["data_dir", "serve", "spark"]
