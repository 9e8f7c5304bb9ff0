"""Fixtures of the whole suite, one topic a file."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.fix_postgres", "tests.fix_s3", "tests.fix_server", "tests.fix_stores"]

# A slow machine is no failure: examples have no deadline.
settings.register_profile("chronolake", deadline=None)
settings.load_profile("chronolake")
