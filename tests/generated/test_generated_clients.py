"""Clients that generators make from the OpenAPI document compile, and their programs commit to a real server.

``make test-clients`` fetches the generators. A language whose tools are not on this machine is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.fix_server import ServerProcess

PROGRAMS = Path(__file__).parent / "programs"
GENERATORS = Path(os.environ.get("CLIENTS_ENV", ".clients-env")).absolute()
LARGE = 5_000_000_000
"""More bytes than 32 bits hold."""

pytestmark = [pytest.mark.generated, pytest.mark.slow]


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4_000:]
    return ended.stdout


def typescript(generator: Path, folder: Path, arguments: list[str]) -> str:
    shutil.copy(PROGRAMS / "main.ts", folder)
    shutil.copy(generator / "package.json", folder)
    (folder / "node_modules").symlink_to(generator / "node_modules")
    tools = generator / "node_modules/.bin"
    # Values with a default may be left out of a request.
    run(
        tools / "openapi-typescript",
        "openapi.json",
        "--default-non-nullable=false",
        "-o",
        "api.d.ts",
        folder=folder,
    )
    modules = ("--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node")
    run(tools / "tsc", "--strict", "--target", "es2022", *modules, "main.ts", folder=folder)
    return run("node", "main.js", *arguments, folder=folder)


def go(generator: Path, folder: Path, arguments: list[str]) -> str:
    shutil.copy(PROGRAMS / "main.go", folder)
    (folder / "api").mkdir()
    generate = ("-generate", "types,client", "-package", "api", "-o", "api/client.go", "openapi.json")
    run(generator / "oapi-codegen", *generate, folder=folder)
    run("go", "mod", "init", "generated", folder=folder)
    run("go", "mod", "tidy", folder=folder)
    return run("go", "run", ".", *arguments, folder=folder)


def java(generator: Path, folder: Path, arguments: list[str]) -> str:
    jar = generator / "openapi-generator-cli.jar"
    run(
        "java",
        "-jar",
        jar,
        "generate",
        "-i",
        "openapi.json",
        "-g",
        "java",
        "--library",
        "native",
        "-o",
        ".",
        folder=folder,
    )
    shutil.copy(PROGRAMS / "Main.java", folder / "src/main/java")
    run("mvn", "-q", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath.txt", folder=folder)
    classes = f"target/classes:{(folder / 'classpath.txt').read_text(encoding='utf-8').strip()}"
    return run("java", "-cp", classes, "Main", *arguments, folder=folder)


def python(generator: Path, folder: Path, arguments: list[str]) -> str:
    shutil.copy(PROGRAMS / "main.py", folder)
    (folder / "names.yml").write_text("package_name_override: chronolake_client\n", encoding="utf-8")
    generate = ("generate", "--path", "openapi.json", "--meta", "none", "--config", "names.yml")
    run(generator / "env/bin/openapi-python-client", *generate, folder=folder)
    return run(generator / "env/bin/python", "main.py", *arguments, folder=folder)


@pytest.mark.parametrize("language", [typescript, go, java, python])
def test_a_program_with_a_generated_client_commits_and_is_refused(
    server: ServerProcess, tmp_path: Path, language: Callable[[Path, Path, list[str]], str]
) -> None:
    generator = GENERATORS / language.__name__
    if not (generator / "complete").exists():
        pytest.skip(f"{generator} is not there: make test-clients fetches it where its tools are")
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "openapi.json").write_bytes(httpx.get(f"{server.url}/openapi.json").content)
    arguments = [server.url, f"from_{language.__name__}", str(tmp_path / "table"), str(LARGE)]

    printed = language(generator, folder, arguments)

    assert printed.split()[-2:] == [str(LARGE), "namespace-not-found"]
