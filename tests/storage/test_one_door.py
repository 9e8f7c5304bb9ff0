"""Nothing in the project deletes files of tables but the guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["client", "metastore", "migrations", "spark_integration"]
PRIMITIVES = {
    *("unlink", "remove_file", "rmdir", "removedirs", "rmtree", "delete_file", "delete_dir"),
    *("delete_dir_contents", "delete_root_dir_contents", "delete_async", "delete_objects", "delete_object"),
}
UNGUARDED = {"delete_permitted", "remove_empty_folders_unguarded"}
MADE_BY_THE_GUARD = {"Permit", "Answers"}
"""A file is deleted with a permit, which needs the answers to all questions of the guard."""
ALLOWED = {
    # The primitives themselves, which only the guard calls.
    "client/chronolake_storage/local.py": {"unlink", "rmdir", "rename"},
    "client/chronolake_storage/objects.py": {"delete"},
    "client/chronolake_storage/guard.py": UNGUARDED | MADE_BY_THE_GUARD,
    # The lock files of a PostgreSQL that ended.
    "metastore/chronolake_metastore/embedded.py": {"unlink"},
    # The files beside a token's and the keys' that they are written to first.
    "metastore/chronolake_metastore/cli/tokens.py": {"unlink"},
    "metastore/chronolake_metastore/identification/token_keys.py": {"unlink"},
    # The file of views that the user names.
    "metastore/chronolake_metastore/cli/auditing.py": {"replace"},
    # A link to a Java runtime.
    "spark_integration/chronolake_spark/driver/java.py": {"replace"},
    # The state of ingest --follow, in a folder of its own: a torn line of its log, and its copies of objects.
    "client/chronolake/ingest/arrivals.py": {"truncate"},
    "spark_integration/chronolake_spark/ingest/follow_job.py": {"rmtree"},
    # Copies of source files without their bad rows, in a temporary folder.
    "client/chronolake/ingest/set_aside.py": {"rmtree"},
}
MODULES = {
    "os": {"remove", "rename", "replace", "truncate"},
    "shutil": {"move", "rmtree"},
    "obstore": {"delete"},
}


def calls(source: str) -> Iterator[str]:
    """The names of primitives that a module calls, or mentions, to delete or replace files."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in MODULES.get(module, ()):
                yield name
            case ast.Attribute(value=ast.Attribute(attr="_obstore"), attr="delete"):
                yield "delete"
            case ast.Attribute(attr=name) if name in PRIMITIVES | UNGUARDED:
                yield name
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in MADE_BY_THE_GUARD:
                yield name
            case ast.ImportFrom(module=str(module), names=names):
                yield from (alias.name for alias in names if alias.name in MODULES.get(module, ()))
            case ast.Constant(value=str(name)) if name in PRIMITIVES | UNGUARDED:
                yield name


def modules() -> list[str]:
    paths = (path for source in SOURCES for path in (ROOT / source).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def test_only_the_guard_calls_the_deleting_functions() -> None:
    used_by_module = {name: set(calls((ROOT / name).read_text())) for name in modules()}

    assert {name: used for name, used in used_by_module.items() if used - ALLOWED.get(name, set())} == {}
    assert used_by_module["client/chronolake_storage/guard.py"] == UNGUARDED | MADE_BY_THE_GUARD


@pytest.mark.parametrize(
    "line",
    [
        "os.remove(path)",
        "path.unlink()",
        "shutil.rmtree(folder)",
        "filesystem.delete_dir(folder)",
        "files.delete_permitted(permits)",
        "Permit(path, answers)",
        "permits.Answers(by_path_and_name={}, by_claims={}, by_need={})",
        "self._obstore.delete(store, path)",
        "from shutil import rmtree",
        "getattr(os, 'unlink')(path)",
        "os.replace(a, b)",
    ],
)
def test_a_deletion_past_the_guard_is_detected(line: str) -> None:
    assert list(calls(line))
