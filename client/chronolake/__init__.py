"""The Python client of Chronolake.

    import chronolake

    with chronolake.connect() as client:
        table = client.table("shop.orders")
        with table.begin(operation=chronolake.Operation.UPSERT) as write:
            write.add(stat)

Errors are in ``chronolake.errors``; the words and bodies shared with the server in ``chronolake_model``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from chronolake import errors
from chronolake._access import ClientCredentials, ServerAccess
from chronolake._filters import Column, col
from chronolake.errors import ChronolakeError
from chronolake_model.access import Grant, WhoAmI
from chronolake_model.cleans import CleanPreview
from chronolake_model.cuts import Cut, TableAtCut
from chronolake_model.deletable import Deletable, Refusal, RefusedDeletion
from chronolake_model.events import LoggedEvent, Outcome
from chronolake_model.files import (
    ChangedFileGroup,
    Changes,
    ColumnStats,
    CompletedInstant,
    DataFile,
    FileGroupName,
    FileSlice,
    Snapshot,
    WriteStat,
)
from chronolake_model.filters import Filter
from chronolake_model.instants import (
    ConflictingInstant,
    Instant,
    Plan,
    RecordedPlan,
    TimeInterval,
    TouchedFileGroup,
    WriteSummary,
)
from chronolake_model.markers import (
    DeletedFile,
    Marker,
    MarkerKind,
    MarkerOutcome,
    MarkersType,
    parse_marker,
)
from chronolake_model.orphans import Orphan, OrphanReason, Orphans, OrphanTotal
from chronolake_model.problems import Problem, ProblemCode
from chronolake_model.readers import ReaderLease
from chronolake_model.roles import Right, Role
from chronolake_model.schemas import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    TableSchema,
    WidenColumn,
)
from chronolake_model.services import (
    HeldService,
    PendingService,
    PlannedService,
    ServiceRun,
    ServicesPlanned,
    ServicesPreview,
    ServicesStatus,
)
from chronolake_model.slices import (
    BucketName,
    FileGroupHistory,
    FoundFileGroup,
    FoundFileGroups,
    GroupReplacement,
    HistoricSlice,
    Partition,
    Partitions,
    PendingFileGroup,
    PendingFileGroups,
    ReplacedFileGroup,
    ReplacedFileGroups,
)
from chronolake_model.streams import BufferedCheckpoint, Stream, StreamInstant, TaskReport
from chronolake_model.sweeps import LateFile, Swept
from chronolake_model.tables import BucketIndex, Field, Namespace, NestedField, SchemaField
from chronolake_model.times import Tick
from chronolake_model.vocabulary import (
    Action,
    Direction,
    HeldReason,
    Operation,
    State,
    TableService,
    TableType,
    TimeOrder,
    Touch,
    View,
)

if TYPE_CHECKING:
    from chronolake._async.client import AsyncClient, connect_async
    from chronolake._async.markers import AsyncMarkers
    from chronolake._async.reading import AsyncReading
    from chronolake._async.services import AsyncServices
    from chronolake._async.stream_writer import AsyncStreamWriter
    from chronolake._async.table import AsyncTable
    from chronolake._async.timeline import AsyncTimeline
    from chronolake._async.write import AsyncWrite
    from chronolake._sync.client import Client, connect
    from chronolake._sync.markers import Markers
    from chronolake._sync.reading import Reading
    from chronolake._sync.services import Services
    from chronolake._sync.stream_writer import StreamWriter
    from chronolake._sync.table import Table
    from chronolake._sync.timeline import Timeline
    from chronolake._sync.write import Write

    __version__: str

__all__ = [
    "Action",
    "AddColumn",
    "AsyncClient",
    "AsyncMarkers",
    "AsyncReading",
    "AsyncServices",
    "AsyncStreamWriter",
    "AsyncTable",
    "AsyncTimeline",
    "AsyncWrite",
    "BucketIndex",
    "BucketName",
    "BufferedCheckpoint",
    "ChangedFileGroup",
    "Changes",
    "ChronolakeError",
    "CleanPreview",
    "Client",
    "ClientCredentials",
    "Column",
    "ColumnStats",
    "CompletedInstant",
    "ConflictingInstant",
    "Cut",
    "DataFile",
    "Deletable",
    "DeletedFile",
    "Direction",
    "DropColumn",
    "Field",
    "FileGroupHistory",
    "FileGroupName",
    "FileSlice",
    "Filter",
    "FoundFileGroup",
    "FoundFileGroups",
    "Grant",
    "GroupReplacement",
    "HeldReason",
    "HeldService",
    "HistoricSlice",
    "Instant",
    "LateFile",
    "LoggedEvent",
    "Marker",
    "MarkerKind",
    "MarkerOutcome",
    "Markers",
    "MarkersType",
    "Namespace",
    "NestedField",
    "Operation",
    "Orphan",
    "OrphanReason",
    "OrphanTotal",
    "Orphans",
    "Outcome",
    "Partition",
    "Partitions",
    "PendingFileGroup",
    "PendingFileGroups",
    "PendingService",
    "Plan",
    "PlannedService",
    "Problem",
    "ProblemCode",
    "ReaderLease",
    "Reading",
    "RecordedPlan",
    "Refusal",
    "RefusedDeletion",
    "RenameColumn",
    "ReplacedFileGroup",
    "ReplacedFileGroups",
    "Right",
    "Role",
    "SchemaChange",
    "SchemaField",
    "ServerAccess",
    "ServiceRun",
    "Services",
    "ServicesPlanned",
    "ServicesPreview",
    "ServicesStatus",
    "SetNullable",
    "Snapshot",
    "State",
    "Stream",
    "StreamInstant",
    "StreamWriter",
    "Swept",
    "Table",
    "TableAtCut",
    "TableSchema",
    "TableService",
    "TableType",
    "TaskReport",
    "Tick",
    "TimeInterval",
    "TimeOrder",
    "Timeline",
    "Touch",
    "TouchedFileGroup",
    "View",
    "WhoAmI",
    "WidenColumn",
    "Write",
    "WriteStat",
    "WriteSummary",
    "__version__",
    "col",
    "connect",
    "connect_async",
    "errors",
    "parse_marker",
]

_MODULES: Final = {
    "connect": "_sync.client",
    "connect_async": "_async.client",
    **{
        prefix + name: f"{package}.{module}"
        for prefix, package in (("", "_sync"), ("Async", "_async"))
        for name, module in (
            ("Client", "client"),
            ("Markers", "markers"),
            ("Reading", "reading"),
            ("Services", "services"),
            ("StreamWriter", "stream_writer"),
            ("Table", "table"),
            ("Timeline", "timeline"),
            ("Write", "write"),
        )
    },
}


def __getattr__(name: str) -> Any:
    """An attribute of a client, imported at its first use: a program needs one of the two, if any."""
    if name == "__version__":
        return importlib.import_module(f"{__name__}._http").version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    try:
        attribute = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as exc:
        if not (exc.name or "").startswith("chronolake._sync"):
            raise
        message = "the blocking client of this checkout is missing or old: run `make sync` in it"
        raise ImportError(message, name=exc.name) from exc
    globals()[name] = attribute
    return attribute
