"""Fixtures of the whole suite, one topic a file."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = ["tests.fix_postgres", "tests.fix_s3", "tests.fix_server", "tests.fix_stores"]

# A slow machine is no failure: examples have no deadline.
settings.register_profile("chronolake", deadline=None)
settings.load_profile("chronolake")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares fixtures in one worker: the tests of a module, and all that need the Spark session."""
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else item.nodeid.partition("::")[0]))
