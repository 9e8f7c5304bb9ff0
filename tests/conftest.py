"""Fixtures of the whole suite, one topic a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.examples import examples
from tests.scheduling import SparkApart
from tools import async_to_sync

# Before anything imports the blocking client, which git ignores, so that it is never older than its source.
async_to_sync.main([])

pytest.register_assert_rewrite("tests.hudi.keyed_table")
# The first is imported by others.
pytest_plugins = [f"tests.fix_{topic}" for topic in ("secrets", "clock", "postgres", "s3", "server", "stores")]

# A slow machine is no failure: examples have no deadline. Hypothesis's own number of them is 100.
settings.register_profile("chronolake", deadline=None, max_examples=examples(100))
settings.load_profile("chronolake")


SHORT_MODULES = ("client", "docs", "domain")
"""Folders whose modules last seconds, but for those with Spark."""

LONGEST_MODULES = ("test_covid_revisions",)
"""Modules that last for minutes."""


_PYTHON_WORKERS = Path(__file__).parent / "spark" / "python_workers"
_SLOW = frozenset((Path(__file__).parent / "slow_tests.txt").read_text("utf-8").splitlines())
# The client compiler alone and one collector thread: the best for a JVM that lives for minutes on two cores.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that ``slow_tests.txt`` lists."""
    if item.nodeid in _SLOW:
        item.add_marker(pytest.mark.slow)


def pytest_configure() -> None:
    """Let Spark drivers, in whatever process of the tests, start their JVM and its Python workers quickly."""
    path = [str(_PYTHON_WORKERS), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    os.environ["SPARK_SUBMIT_OPTS"] = _JVM


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkApart | None:
    """Give the modules with Spark to some of the workers, where each module is whole in one worker."""
    return SparkApart(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that last longest, and end with short ones, so that all workers end together."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    if item.path.stem in LONGEST_MODULES:
        return -1
    if folder in ("spark", "history") or item.get_closest_marker("spark") is not None:
        return 0
    return 2 if folder in SHORT_MODULES else 1
