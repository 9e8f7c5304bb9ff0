"""Make the environment of the generated clients: ``python tools/make_client_env.py <folder>``.

It fetches generators of clients at fixed versions by the package managers of their languages:
openapi-typescript with TypeScript (npm), oapi-codegen (Go), openapi-generator (Maven), openapi-python-client
(pip). A language whose tools are not on this machine is left out. A second run fetches nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

NPM: Final = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20.19.43")
GO: Final = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
JAVA: Final = "org.openapitools:openapi-generator-cli:7.16.0"
PYTHON: Final = "openapi-python-client==0.29.1"


def main() -> None:
    """Make what is missing in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the environment; it is made if it is missing")
    folder = parser.parse_args().folder.absolute()
    for language, tool, fetch in (
        ("typescript", "npm", _typescript),
        ("go", "go", _go),
        ("java", "mvn", _java),
        ("python", sys.executable, _python),
    ):
        target = folder / language
        if (target / "complete").exists():
            continue
        if shutil.which(tool) is None:
            print(f"{language} is left out: there is no {tool}", flush=True)
            continue
        print(f"Fetching the generator for {language} into {target}.", flush=True)
        target.mkdir(parents=True, exist_ok=True)
        fetch(target)
        (target / "complete").touch()


def _typescript(folder: Path) -> None:
    (folder / "package.json").write_text('{"type": "module", "private": true}\n', encoding="utf-8")
    _run("npm", "install", "--no-audit", "--no-fund", "--save-exact", *NPM, folder=folder)


def _go(folder: Path) -> None:
    _run("go", "install", GO, folder=folder, GOBIN=str(folder))


def _java(folder: Path) -> None:
    copy = ("dependency:copy", f"-Dartifact={JAVA}", f"-DoutputDirectory={folder}", "-Dmdep.stripVersion=true")
    _run("mvn", "--quiet", *copy, folder=folder)


def _python(folder: Path) -> None:
    _run(sys.executable, "-m", "venv", "env", folder=folder)
    _run("env/bin/python", "-m", "pip", "install", "--quiet", PYTHON, folder=folder)


def _run(*command: str, folder: Path, **variables: str) -> None:
    subprocess.run(command, cwd=folder, env={**os.environ, **variables}, check=True)


if __name__ == "__main__":
    main()
