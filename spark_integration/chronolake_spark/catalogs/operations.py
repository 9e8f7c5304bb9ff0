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
    format_tables,
    metadata_tables,
    new_tables,
    scans,
    statements,
    stream_writes,
    writes,
)
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.sessions import Sessions

_END_SINK: Final = "end_sink"
"""The request about no metastore and no session: ``{"sink": "id"}``."""
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
    "read": (format_tables.ByOptions, format_tables.read),
    "check_stream": (format_tables.ByOptions, format_tables.check_stream),
    "written_table": (format_tables.ByOptions, format_tables.written_table),
    "state": (definitions.OfTable, writes.state),
    "write": (writes.WriteRequest, writes.write),
    "new_sink": (stream_writes.NewSink, stream_writes.new_sink),
    "check_rows": (stream_writes.SinkOfRows, stream_writes.check_rows),
    "write_batch": (stream_writes.BatchOfSink, stream_writes.write_batch),
    "begin_statement": (statements.BeginStatement, statements.begin),
    "complete_statement": (statements.CompleteStatement, statements.complete),
    "abort_statement": (statements.AbortStatement, statements.abort),
}
"""By name: the body of the request, and the function."""


def run(request: Mapping[str, Any], sessions: Sessions) -> Any:
    """Answer a request: a value that JSON can have. Raises ``ChronolakeError``, ``ValueError``."""
    if request["operation"] == _END_SINK:
        stream_writes.end_sink(request["sink"])
        return None
    body, function = _OPERATIONS[request["operation"]]
    context = CatalogContext.of(request, sessions)
    return msgspec.to_builtins(function(context, decoding.convert(request, body)))
