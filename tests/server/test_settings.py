"""Each setting is an option of ``serve``, an environment variable, and a row of the reference."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from chronolake_metastore.cli import options
from chronolake_metastore.settings import LogLevel, Setting, Settings, all_settings
from chronolake_model import environment
from tests.docs.markdown import ROOT

OF_SERVER = [setting.variable for setting in all_settings()]

DSN = "postgresql://db.example/lake"
REFERENCE = (ROOT / "docs/reference/settings.md").read_text("utf-8")
by_name = pytest.mark.parametrize("setting", all_settings(), ids=lambda setting: setting.name)


@pytest.fixture(autouse=True)
def keep_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the logging of the test process alone."""
    monkeypatch.setattr("chronolake_metastore.telemetry.configure", lambda *_: None)


def settings_of(*arguments: str, variables: dict[str, str] | None = None, **defaults: Any) -> Settings:
    """The settings that a command with all options gets."""
    app = typer.Typer()
    received: list[Settings] = []
    app.command()(options.of_settings(*options.EVERY, **defaults)(received.append))
    unset = dict.fromkeys((setting.variable for setting in all_settings()), None)
    ended = CliRunner().invoke(app, arguments, env=unset | (variables or {}))
    assert ended.exit_code == 0, ended.output
    [settings] = received
    return settings


def example(setting: Setting) -> tuple[str, Any]:
    """A value that is not the default, as text and as the field has it."""
    if setting.type in (bool, bool | None):
        return "true", True
    if setting.type == Sequence[str]:
        return "s3://lake/", ("s3://lake/",)
    if setting.type in (Path, Path | None):
        return "/srv/lake", Path("/srv/lake")
    if isinstance(setting.type, enum.EnumType):
        other = next(member for member in list[enum.StrEnum](setting.type) if member != setting.default)
        return other.value, other
    if setting.type in (str, str | None):
        return DSN, DSN
    return str(setting.default + 1), setting.default + 1


def test_without_options_a_server_has_the_defaults_of_the_class() -> None:
    assert settings_of() == Settings()


def test_a_command_may_have_a_default_of_its_own() -> None:
    assert settings_of(log_level=LogLevel.WARNING).log_level is LogLevel.WARNING


@by_name
def test_a_setting_is_a_flag(setting: Setting) -> None:
    text, value = example(setting)
    arguments = [setting.flag] if value is True else [setting.flag, text]
    assert getattr(settings_of(*arguments), setting.name) == value


@by_name
def test_a_setting_is_an_environment_variable(setting: Setting) -> None:
    text, value = example(setting)
    assert getattr(settings_of(variables={setting.variable: text}), setting.name) == value


def test_a_flag_wins_over_the_variable() -> None:
    assert settings_of("--port", "1", variables={"CHRONOLAKE_PORT": "2"}).port == 1


@by_name
def test_a_setting_is_in_the_reference_with_its_meaning(setting: Setting) -> None:
    [row, *_] = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{setting.flag}`")]
    assert f"`{setting.variable}`" in row
    assert setting.option.help in row


@pytest.mark.parametrize(
    "setting", [setting for setting in all_settings() if setting.option.min], ids=lambda setting: setting.name
)
def test_a_value_out_of_range_is_refused(setting: Setting) -> None:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(options.of_settings(*options.EVERY)(lambda _: None))
    refused = CliRunner().invoke(app, [setting.flag, "0"])
    assert refused.exit_code == 2
    assert f"Invalid value for '{setting.flag}'" in refused.output


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CHRONOLAKE_PROT", "CHRONOLAKE_PORT"),
        ("CHRONOLAKE_REAPER_SECOND", "CHRONOLAKE_REAPER_SECONDS"),
        ("CHRONOLAKE_DATABASE_DSN", "CHRONOLAKE_DATA_DIR"),
    ],
)
def test_a_misspelled_variable_is_named_with_the_nearest(name: str, nearest: str) -> None:
    [warning] = environment.warnings([name, "PATH", "CHRONOLAKE_PORT"], OF_SERVER)

    assert name in warning
    assert nearest in warning


def test_a_client_names_only_what_is_like_its_own_variables() -> None:
    present = [*OF_SERVER, "CHRONOLAKE_URI", "CHRONOLAKE_PROGRES"]

    warnings = environment.warnings(present, (), 0.6)

    assert [warning.split()[3] for warning in warnings] == ["CHRONOLAKE_PROGRES", "CHRONOLAKE_URI"]


def test_known_variables_and_those_of_kubernetes_are_not_named() -> None:
    kubernetes = ["CHRONOLAKE_PORT", "CHRONOLAKE_SERVICE_HOST", "CHRONOLAKE_PORT_7077_TCP_ADDR"]

    assert environment.warnings([*OF_SERVER, *environment.OF_CLIENTS, *kubernetes], OF_SERVER) == []
