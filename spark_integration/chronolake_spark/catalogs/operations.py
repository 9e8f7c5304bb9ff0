"""The requests of the Java part, each with the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from chronolake_model import decoding
from chronolake_spark.catalogs import (
    altering,
    changelogs,
    definitions,
    metadata_tables,
    new_tables,
    scans,
    statements,
    writes,
)
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.sessions import Sessions

_OPERATIONS: Final[Mapping[str, tuple[type, Callable[[CatalogContext, Any], Any]]]] = {
    "namespaces": (definitions.Nothing, definitions.namespaces),
    "namespace": (definitions.OfNamespace, definitions.namespace),
    "create_namespace": (definitions.NewNamespace, definitions.create_namespace),
    "drop_namespace": (definitions.DropNamespace, definitions.drop_namespace),
    "tables": (definitions.OfNamespace, definitions.tables),
    "load": (definitions.LoadTable, definitions.load),
    "create": (new_tables.TableToMake, new_tables.create),
    "alter": (altering.TableToAlter, altering.alter),
    "rename": (altering.TableToRename, altering.rename),
    "drop": (definitions.OfTable, altering.drop),
    "truncate": (definitions.OfTable, altering.truncate),
    "metadata": (metadata_tables.LoadMetadata, metadata_tables.load),
    "metadata_rows": (metadata_tables.ReadMetadata, metadata_tables.rows),
    "scan": (scans.ScanRequest, scans.plan),
    "changes": (changelogs.ChangesRequest, changelogs.plan),
    "state": (definitions.OfTable, writes.state),
    "write": (writes.WriteRequest, writes.write),
    "begin_statement": (statements.BeginStatement, statements.begin),
    "complete_statement": (statements.CompleteStatement, statements.complete),
    "abort_statement": (statements.AbortStatement, statements.abort),
}
"""By name: the body of the request, and the function."""


def run(request: Mapping[str, Any], sessions: Sessions) -> Any:
    """Answer a request: a value that JSON can have. Raises ``ChronolakeError``, ``ValueError``."""
    body, function = _OPERATIONS[request["operation"]]
    context = CatalogContext.of(request, sessions)
    return msgspec.to_builtins(function(context, decoding.convert(request, body)))
