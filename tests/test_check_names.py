"""The refusals of the check of names of ``make check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_names

SERVER = "metastore/chronolake_metastore"


@pytest.mark.parametrize(
    ("paths", "is_refused"),
    [
        (["client/chronolake/errors.py", f"{SERVER}/errors.py"], False),
        (["client/chronolake_model/tables.py", f"{SERVER}/domain/tables.py"], False),
        (["client/chronolake_model/tables.py", f"{SERVER}/domain/catalog.py"], True),
        (["client/chronolake/_async/write.py", "client/chronolake/_sync/write.py"], False),
        ([f"{SERVER}/store/tables.py", f"{SERVER}/domain/tables.py"], True),
        (["client/chronolake_model/a.py", f"{SERVER}/domain/a.py", f"{SERVER}/store/a.py"], True),
    ],
)
def test_a_class_name_that_means_two_things_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], paths: list[str], is_refused: bool
) -> None:
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("class Table: ...\nclass _Private: ...\n")

    assert check_names.main(tmp_path, exceptions=()) == int(is_refused)

    assert ("class Table is in" in capsys.readouterr().out) is is_refused


def test_a_command_may_have_the_name_of_its_body(tmp_path: Path) -> None:
    bodies, commands = tmp_path / "client/chronolake_model", tmp_path / SERVER / "domain"
    bodies.mkdir(parents=True)
    commands.mkdir(parents=True)
    (bodies / "streams.py").write_text("class RestartTask: ...\n")
    (commands / "checkpoints.py").write_text("class RestartTask(streams.StreamCommand): ...\n")

    assert check_names.main(tmp_path, exceptions=()) == 0


def test_an_exception_that_is_not_needed_any_more_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("a", "b"):
        (tmp_path / SERVER).mkdir(parents=True, exist_ok=True)
        (tmp_path / SERVER / f"{module}.py").write_text("class Twice: ...\n")

    assert check_names.main(tmp_path, exceptions=["Twice"]) == 0
    assert check_names.main(tmp_path, exceptions=["Twice", "Once"]) == 1

    assert capsys.readouterr().out == "class Once means one thing now: remove it from EXCEPTIONS\n"
