"""The parts of psycopg and granian that the server relies on, and that they do not document, are there."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import tomllib
from pathlib import Path

import psycopg
import pytest
from granian.server.embed import Server
from packaging.requirements import Requirement
from packaging.version import Version
from psycopg import errors, generators
from psycopg.adapt import Transformer

UNDOCUMENTED = re.compile(r"import .*\bgenerators\b|error_from_result|Transformer|granian\.server\.embed")
OF_A_PIPELINE = (
    "enter_pipeline_mode",
    "exit_pipeline_mode",
    "pipeline_sync",
    "send_prepare",
    "flush",
    "finish",
)


def test_psycopg_has_what_a_pipeline_needs() -> None:
    assert callable(generators.fetch_many)
    assert callable(generators.send)
    assert "encoding" in inspect.signature(errors.error_from_result).parameters
    for method in ("dump_sequence", "set_pgresult", "load_rows", "types", "formats"):
        assert hasattr(Transformer, method) or hasattr(Transformer(None), method), method
    for method in (*OF_A_PIPELINE, "send_query_prepared"):
        assert hasattr(psycopg.pq.PGconn, method), method


def test_all_waits_of_a_connection_pass_one_method() -> None:
    assert list(inspect.signature(psycopg.AsyncConnection.wait).parameters)[:2] == ["self", "gen"]
    for caller in (psycopg.AsyncCursor.execute, psycopg.AsyncConnection.commit, psycopg.AsyncCursor.stream):
        assert ".wait(" in inspect.getsource(caller)


def test_granian_can_be_embedded_in_the_loop_of_the_server() -> None:
    taken = {"address", "port", "interface", "backlog", "backpressure", "http", "http1_settings", "websockets"}
    assert taken <= inspect.signature(Server.__init__).parameters.keys()
    assert inspect.iscoroutinefunction(Server.serve)
    assert callable(Server.stop)


def test_one_module_for_each_library_names_such_a_part(repository: Path) -> None:
    naming = {
        file.name
        for root in ("metastore", "migrations", "client")
        for file in (repository / root).rglob("*.py")
        if UNDOCUMENTED.search(file.read_text())
    }
    assert naming == {"connections.py", "serving.py"}


@pytest.mark.parametrize("library", ["granian", "psycopg", "pyspark"])
def test_the_next_minor_version_of_the_library_is_not_installed_untried(repository: Path, library: str) -> None:
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    required = [Requirement(text) for texts in extras.values() for text in texts]
    [versions] = [requirement.specifier for requirement in required if requirement.name == library]
    installed = Version(importlib.metadata.version(library))
    assert installed in versions
    assert f"{installed.major}.{installed.minor + 1}" not in versions
