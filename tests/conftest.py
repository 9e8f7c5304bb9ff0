"""Fixtures of the whole suite, one topic a file."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = ["tests.fix_postgres", "tests.fix_s3", "tests.fix_server", "tests.fix_stores"]

# A slow machine is no failure: examples have no deadline.
settings.register_profile("chronolake", deadline=None)
settings.load_profile("chronolake")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that last longest: else one worker would be left alone with them at the end."""
    items.sort(key=lambda item: item.path.parent.name != "spark")
