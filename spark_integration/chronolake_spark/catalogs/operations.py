"""The requests of the Java part, each with the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from chronolake_model import decoding
from chronolake_spark.catalogs import changelogs, definitions, scans
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.sessions import Sessions

_OPERATIONS: Final[Mapping[str, tuple[type, Callable[[CatalogContext, Any], Any]]]] = {
    "namespaces": (definitions.Nothing, definitions.namespaces),
    "namespace": (definitions.OfNamespace, definitions.namespace),
    "tables": (definitions.OfNamespace, definitions.tables),
    "load": (definitions.LoadTable, definitions.load),
    "scan": (scans.ScanRequest, scans.plan),
    "changes": (changelogs.ChangesRequest, changelogs.plan),
}
"""By name: the body of the request, and the function."""


def run(request: Mapping[str, Any], sessions: Sessions) -> Any:
    """Answer a request: a value that JSON can have. Raises ``ChronolakeError``, ``ValueError``."""
    body, function = _OPERATIONS[request["operation"]]
    context = CatalogContext.of(request, sessions)
    return msgspec.to_builtins(function(context, decoding.convert(request, body)))
