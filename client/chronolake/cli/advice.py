"""Commands that the command line suggests after a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chronolake_model.problems import ProblemCode

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    ProblemCode.NAMESPACE_NOT_FOUND: (
        "chronolake namespaces list",
        "chronolake namespaces create {namespace}",
    ),
    ProblemCode.NAMESPACE_NOT_EMPTY: ("chronolake tables list", "chronolake tables drop {table}"),
    ProblemCode.TABLE_NOT_FOUND: ("chronolake tables list", "chronolake tables create {table} --help"),
    ProblemCode.TABLE_EXISTS: ("chronolake tables show {table}",),
    ProblemCode.INSTANT_NOT_FOUND: ("chronolake timeline {table}",),
    ProblemCode.SCHEMA_NOT_FOUND: ("chronolake schema list {table}",),
    ProblemCode.SCHEMA_CHANGED: ("chronolake schema show {table}",),
    ProblemCode.ILLEGAL_TRANSITION: ("chronolake instant {table} {requested_time}",),
    ProblemCode.LEASE_LIVE: ("chronolake timeline {table} --pending",),
    ProblemCode.NOT_PUBLISHED: ("chronolake hudi status {table}",),
    ProblemCode.NOT_PUBLISHED_YET: ("chronolake hudi status {table}",),
    ProblemCode.PUBLICATION_FENCED: ("chronolake hudi status {table}",),
    ProblemCode.SAVEPOINTED: (
        "chronolake savepoint list {table}",
        "chronolake savepoint release {table} {savepoint}",
    ),
    ProblemCode.UNRECONCILED_MARKERS: ("chronolake finish-rollbacks {table}",),
    ProblemCode.UNDELETED_FILES: ("chronolake clean {table}",),
    ProblemCode.BASE_PATH_TAKEN: ("chronolake tables show {table}",),
}
"""The commands for a problem. A name in braces is replaced from the problem's context, or by a placeholder."""

REUSE: Final = "the same one with --reuse-base-path"
"""The advice for a base path that only dropped tables use."""

PUBLISHED_BY: Final = "chronolake hudi status {table}"
"""The advice while another publisher has the lease of a table."""

RENAMED: Final = "chronolake tables show {renamed_to}"
"""The advice for a former name of a table."""


class _Words(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "NAMESPACE.TABLE" if name == "table" else name.upper()


def commands(code: str, context: Mapping[str, Any]) -> list[str]:
    """The commands that help after a problem with this code and context; none for most problems."""
    if code == ProblemCode.BASE_PATH_TAKEN and context.get("dropped"):
        return [REUSE]
    if "renamed_to" in context:
        return [RENAMED.format_map(context)]
    if code == ProblemCode.LEASE_LIVE and "publisher" in context:
        return [PUBLISHED_BY.format_map(context)]
    return [command.format_map(_Words(context)) for command in COMMANDS.get(code, ())]
