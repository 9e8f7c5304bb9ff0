"""The messages of ``make check``. These tests run in ``make test``, beside the check and not inside it."""

from __future__ import annotations

import pytest

from tools import check

PASSES = ("python", "-c", "print('not shown')")
FAILS = ("python", "-c", "print('the reason'); raise SystemExit(3)")


def test_all_parts_run_and_those_that_fail_are_named_with_their_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check.main([FAILS, PASSES]) == 1

    shown = capsys.readouterr().out
    assert "the reason\n" in shown
    assert "passed: python -c print('not shown')\n" in shown
    assert shown.count("not shown") == 1
    assert "1 of 2 parts failed: python -c print('the reason')" in shown


def test_when_all_parts_pass_the_exit_code_is_0() -> None:
    assert check.main([PASSES]) == 0
