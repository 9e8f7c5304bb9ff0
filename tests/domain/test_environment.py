"""Environment variables that no program reads are named, with the nearest that one reads."""

from __future__ import annotations

import pytest

from chronolake_metastore.settings import all_settings
from chronolake_model import environment

OF_SERVER = [setting.variable for setting in all_settings()]


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
