"""Fixtures of the whole suite, one topic a file."""

from __future__ import annotations

pytest_plugins = ["tests.fix_postgres", "tests.fix_server"]
