"""The refusals of the size check of ``make check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_sizes


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
