"""The table of operations: every operation of the REST API, declared once."""

from __future__ import annotations

from typing import Any, Final

from chronolake_model.operations import access, catalog, files, services, streams, timeline
from chronolake_model.operations.declaring import ApiOperation

ALL: Final[tuple[ApiOperation[Any, Any], ...]] = tuple(
    operation
    for module in (catalog, timeline, services, files, streams, access)
    for operation in vars(module).values()
    if isinstance(operation, ApiOperation)
)
"""All operations, in the order of the modules."""
