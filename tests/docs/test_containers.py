"""The container files name existing settings, commands, extras and ports. (The tests need no Docker.)"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from chronolake_metastore.cli import serving
from chronolake_metastore.settings import Settings
from tests.docs import command_lines
from tests.docs.markdown import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
OURS = [name for name, service in COMPOSE["services"].items() if "build" in service]

each_service_of_ours = pytest.mark.parametrize("name", OURS)


@each_service_of_ours
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    assert command_lines.unknown_words("chronolake-metastore", COMPOSE["services"][name]["command"]) == []


@each_service_of_ours
def test_a_service_sets_only_settings_of_its_command(name: str) -> None:
    service = COMPOSE["services"][name]
    known = command_lines.server_commands()[service["command"][0]].variables
    given = {variable for variable in service["environment"] if variable.startswith("CHRONOLAKE_")}
    assert given - known == set()


def test_the_server_starts_when_the_database_is_healthy_and_migrated() -> None:
    conditions = {name: how["condition"] for name, how in COMPOSE["services"]["server"]["depends_on"].items()}
    assert conditions == {"postgres": "service_healthy", "migrate": "service_completed_successfully"}
    assert "test" in COMPOSE["services"]["postgres"]["healthcheck"]


def test_only_the_server_is_published_and_only_on_loopback() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert published == [f"127.0.0.1:{Settings(dsn='').port}:{Settings(dsn='').port}"]


def test_each_named_volume_and_service_is_declared() -> None:
    mounted = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", [])]
    assert {volume.split(":")[0] for volume in mounted} == set(COMPOSE["volumes"])
    waited_for = {name for service in COMPOSE["services"].values() for name in service.get("depends_on", {})}
    assert waited_for <= set(COMPOSE["services"])


def test_the_image_sets_only_settings_of_serve() -> None:
    given = set(re.findall(r"\b(CHRONOLAKE_[A-Z_]+)=", "\n".join(_instructions("ENV"))))
    assert given
    assert given - command_lines.server_commands()["serve"].variables == set()


def test_the_image_installs_extras_that_exist_under_the_constraints() -> None:
    (install,) = [line for line in _instructions("RUN") if "pip install" in line]
    (extras,) = re.findall(r"'\.\[([a-z,-]+)\]'", install)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    assert "--constraint constraints.txt" in install


def test_the_image_exposes_the_default_port_and_starts_the_server() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert _instructions("EXPOSE") == [str(Settings(dsn="").port)]
    (program,) = json.loads(*_instructions("ENTRYPOINT"))
    assert program in scripts
    assert command_lines.unknown_words(program, json.loads(*_instructions("CMD"))) == []


def test_the_image_runs_without_privileges() -> None:
    (user,) = _instructions("USER")
    assert any(f" {user}" in line for line in _instructions("RUN") if line.startswith("useradd"))


def test_each_copied_path_exists_and_is_sent_to_the_builder() -> None:
    copied = [line for line in _instructions("COPY") if not line.startswith("--from")]
    sources = {word for line in copied for word in line.split()[:-1]}
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"}
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert sources == kept


def test_the_sources_of_the_wheel_are_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    folders = {package.split("/")[0] for package in packages}
    copied = "\n".join(_instructions("COPY"))
    assert {folder for folder in folders if f"{folder} {folder}" not in copied} == set()


def test_at_the_address_of_the_image_the_server_requires_an_explicit_choice() -> None:
    (host,) = re.findall(r"CHRONOLAKE_HOST=(\S+)", DOCKERFILE)
    with pytest.raises(Exception, match="--allow-anonymous"):
        serving.refuse_anonymous_network(Settings(host=host))
    assert COMPOSE["services"]["server"]["environment"]["CHRONOLAKE_ALLOW_ANONYMOUS"] == "true"


def _instructions(word: str) -> list[str]:
    return re.findall(rf"^\s*{word}\s+(.+)$", DOCKERFILE, re.M)
