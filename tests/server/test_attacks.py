"""Each known attack on access control has tests that exist, or a reason to have none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.server.attacks import ATTACKS

TESTS = Path(__file__).parents[1]


def test_no_attack_is_left_out() -> None:
    assert list(ATTACKS) == list(range(1, 63))


@pytest.mark.parametrize("number", ATTACKS)
def test_an_attack_has_tests_or_has_no_place_here(number: int) -> None:
    attack = ATTACKS[number]

    assert attack.what and attack.source
    assert bool(attack.tests) != bool(attack.no_place)
    assert [name for name in attack.tests if name not in _tests_of(name.partition("::")[0])] == []


def _tests_of(module: str) -> set[str]:
    """The tests of a module, without importing it: those of Spark need more than others."""
    parsed = ast.parse((TESTS / module).read_text(encoding="utf-8"))
    defined = (each for each in parsed.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{module}::{each.name}" for each in defined if each.name.startswith("test_")}
