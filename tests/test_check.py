"""``make check``: its messages, and the refusals of its size check. These tests run in ``make test``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check, check_sizes

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


@pytest.mark.parametrize(
    ("path", "lines", "expected"),
    [
        ("tests/store/test_a.py", 500, ""),
        (
            "tests/store/test_a.py",
            501,
            "tests/store/test_a.py: 501 lines, at most 500; split it by subject, a noun for each module\n",
        ),
        ("client/chronolake/_sync/write.py", 501, ""),
        ("examples/writers/python_writer.py", 501, ""),
    ],
)
def test_a_file_of_more_than_500_lines_that_is_written_by_hand_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, lines: int, expected: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("pass\n" * lines)

    assert check_sizes.main(tmp_path) == (1 if expected else 0)

    assert capsys.readouterr().out == expected


def test_each_exception_is_a_file_that_needs_it() -> None:
    sizes = dict(check_sizes.sizes(check_sizes.ROOT))
    assert all(sizes[path] > check_sizes.LINES_MAX for path in check_sizes.EXCEPTIONS)
