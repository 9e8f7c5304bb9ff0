"""The list of slow tests names tests that exist."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_each_slow_test_exists() -> None:
    listed = (ROOT / "tests" / "slow_tests.txt").read_text("utf-8").splitlines()
    nodes = [line for line in listed if not line.startswith("#")]
    assert nodes == sorted(set(nodes))
    for node in nodes:
        path, _, test = node.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text("utf-8"), node
