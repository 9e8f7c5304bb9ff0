"""Commands that other packages add to ``chronolake``."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from chronolake.cli import context, output, plugins
from tests.client.conftest import Cli


def test_a_command_does_not_import_the_modules_of_a_plug_in() -> None:
    code = (
        "import sys; from chronolake.cli.main import run; run(['tables', 'list', '--url', 'nowhere']);"
        "sys.exit(any(name.startswith(('pyspark', 'pyarrow', 'chronolake_spark')) for name in sys.modules))"
    )

    assert (
        subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=False).returncode
        == 0
    )


def with_plug_ins(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    entries = [importlib.metadata.EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)


def test_a_plug_in_is_a_command_with_the_common_options(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with_plug_ins(monkeypatch, greet="tests.client.test_cli_plug_ins:greet")

    ran = run("greet", "you", "--url", "http://lake:1", "--json")

    assert ran.json == {"hello": "you", "url": "http://lake:1"}
    assert "Print a greeting." in run("--help").out


@pytest.mark.parametrize("value", ["tests.client.no_such_module:greet", "tests.client.test_cli_plug_ins:late"])
def test_a_plug_in_that_cannot_be_imported_names_the_package_to_install(
    run: Cli, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with_plug_ins(monkeypatch, greet=value)

    ran = run("greet")

    assert ran.code == output.FAILED
    assert "pip install 'chronolake[spark-local]'" in ran.err
    assert "Traceback" not in ran.err
    assert "greet" in run("--help").out


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_folder_that_a_command_cannot_write_into_is_named_without_a_traceback(
    run: Cli, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    with_plug_ins(monkeypatch, save="tests.client.test_cli_plug_ins:save")

    ran = run("save", "/nowhere/file", *flags)

    assert ran.code == output.USAGE
    assert "/nowhere/file cannot be used: No such file or directory" in ran.err


def test_an_absent_plug_in_names_the_package_to_install_with_any_options(
    run: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plug_ins(monkeypatch, greet="tests.client.no_such_module:greet")

    ran = run("greet", "you", "--loudly", "--json")

    assert ran.code == output.FAILED
    assert "spark-local" in json.loads(ran.err)["detail"]


def greet(whom: Annotated[str, typer.Argument()]) -> None:
    """Print a greeting."""
    with context.client() as client:
        output.show({"hello": whom, "url": client.url}, lambda console: console.print(f"hello {whom}"))


def late() -> None:
    """Require a package that is not installed."""
    import no_such_package  # type: ignore[import-not-found]  # noqa: F401, PLC0415


def save(path: Annotated[Path, typer.Argument()]) -> None:
    """Write a file."""
    path.write_text("saved")
