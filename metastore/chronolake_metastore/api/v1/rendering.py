"""Statuses and bodies of the answers to commands.

A repeated request gets its first answer byte for byte, and that answer is rendered again from the recorded
result. So the body of a kind of result never changes: a result that is to be answered otherwise gets a new
revision (``domain/results.py``), and the earlier one keeps its rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from chronolake_metastore.domain import results
from chronolake_metastore.domain.results import AnyRecorded, AnyResult, Refused
from chronolake_metastore.domain.subjects import key_in
from chronolake_metastore.queries import grants, instants, namespaces, schemas, services, streams, tables
from chronolake_model import (
    adoption as wire_adoption,
    cleans as wire_cleans,
    instants as wire_instants,
    markers as wire_markers,
    publication as wire_publication,
    services as wire_services,
    streams as wire_streams,
    sweeps as wire_sweeps,
)
from chronolake_model.problems import problem
from chronolake_model.times import format_time

_CREATED: Final = 201
_OK: Final = 200
_NO_CONTENT: Final = 204


class _V1:
    """The dialect ``/v1``."""

    name = "v1"

    def render(self, recorded: AnyRecorded, request_id: str) -> bytes:
        """The JSON body of the answer, empty for a status without one."""
        if isinstance(recorded, Refused):
            key = key_in(request_id)
            document: Any = problem(
                recorded.code, recorded.detail, recorded.place, recorded.context, idempotency_key=key
            )
        else:
            document = DOCUMENTS[type(recorded)](recorded)
        return b"" if document is None else msgspec.json.encode(document)


V1: Final = _V1()


def status_of(recorded: AnyRecorded) -> int:
    """The HTTP status of the answer."""
    if isinstance(recorded, Refused):
        return recorded.code.status
    if isinstance(recorded, results.DropResult):
        return _NO_CONTENT
    return _CREATED if recorded.is_new else _OK


def _nothing(result: results.DropResult) -> None:
    return None


def _namespace(result: results.NamespaceResult) -> msgspec.Struct:
    return namespaces.document(result.namespace)


def _table(result: results.TableResult) -> msgspec.Struct:
    return tables.document(result.table, result.metastore_id, result.took_over)


def _adoption(result: results.AdoptionResult) -> msgspec.Struct:
    table = tables.document(result.table, result.metastore_id, result.took_over)
    return wire_adoption.AdoptedTable(table, result.version)


def _schema(result: results.SchemaResult) -> msgspec.Struct:
    return schemas.document(result.table, result.schema)


def _instant(result: results.InstantResult) -> msgspec.Struct:
    return instants.document(result.of)


def _begun_instants(result: results.BegunInstantsResult) -> msgspec.Struct:
    first = instants.document(result.first)
    begun = [
        msgspec.structs.replace(
            first, requested_time=format_time(time, result.first.tick), version=first.version + number
        )
        for number, time in enumerate(result.requested_times)
    ]
    return wire_instants.InstantPage(begun, None)


def _completed_instants(result: results.CompletedInstantsResult) -> msgspec.Struct:
    return wire_instants.CompletedTogether([instants.document(instant) for instant in result.instants])


def _staging(result: results.StagingResult) -> msgspec.Struct:
    requested_time = format_time(result.requested_time, result.tick)
    return wire_instants.StagedWriteStats(result.table, requested_time, result.version, result.summary)


def _deletions(result: results.DeletionsResult) -> msgspec.Struct:
    requested_time = format_time(result.requested_time, result.tick)
    return wire_markers.ReportedDeletions(result.table, requested_time, result.version, result.files)


def _sweep(result: results.SweepResult) -> msgspec.Struct:
    unswept = None if result.unswept_since is None else format_time(result.unswept_since, result.tick)
    requested_time = format_time(result.requested_time, result.tick)
    return wire_sweeps.RecordedSweep(result.table, requested_time, result.late_files, unswept)


def _clean(result: results.CleanResult) -> msgspec.Struct:
    clean = None if result.clean is None else instants.document(result.clean)
    return wire_cleans.PlannedClean(result.table, clean)


def _services(result: results.ServicesResult) -> msgspec.Struct:
    planned = [instants.document(instant) for instant in result.instants]
    return wire_services.ServicesPlanned(result.table, planned, services.held_documents(result.held))


def _hudi_files(result: results.HudiFilesResult) -> msgspec.Struct:
    return wire_publication.RecordedHudiFiles(result.table, result.version)


def _stream(result: results.StreamResult) -> msgspec.Struct:
    return streams.document(result.of)


def _stream_instant(result: results.StreamInstantResult) -> msgspec.Struct:
    return wire_streams.StreamInstant(
        table=result.table,
        stream=result.stream,
        checkpoint=result.checkpoint,
        requested_time=format_time(result.requested_time, result.tick),
        blocking=result.is_blocking,
    )


def _write_metadata(result: results.WriteMetadataResult) -> msgspec.Struct:
    time = result.requested_time
    return wire_streams.ReportedWriteMetadata(
        table=result.table,
        stream=result.stream,
        checkpoint=result.checkpoint,
        requested_time=None if time is None else format_time(time, result.tick),
        files=result.files,
        is_completed=result.is_completed,
    )


def _checkpoints(result: results.CheckpointsResult) -> msgspec.Struct:
    return wire_streams.CompletedCheckpoints(
        table=result.table,
        stream=result.stream,
        instants=[instants.document(instant) for instant in result.instants],
        rolled_back=[format_time(time, result.tick) for time in result.rolled_back],
    )


def _task(result: results.TaskResult) -> msgspec.Struct:
    return wire_streams.RestartedTask(
        table=result.table,
        stream=result.stream,
        task=result.task,
        attempt=result.attempt,
        dropped_files=result.dropped_files,
    )


def _grant(result: results.GrantResult) -> msgspec.Struct:
    return grants.document(result.grant)


DOCUMENTS: Final[Mapping[type[AnyResult], Callable[[Any], msgspec.Struct | None]]] = {
    results.NamespaceResult: _namespace,
    results.DropResult: _nothing,
    results.TableResult: _table,
    results.AdoptionResult: _adoption,
    results.SchemaResult: _schema,
    results.InstantResult: _instant,
    results.BegunInstantsResult: _begun_instants,
    results.CompletedInstantsResult: _completed_instants,
    results.StagingResult: _staging,
    results.DeletionsResult: _deletions,
    results.SweepResult: _sweep,
    results.CleanResult: _clean,
    results.ServicesResult: _services,
    results.HudiFilesResult: _hudi_files,
    results.StreamResult: _stream,
    results.StreamInstantResult: _stream_instant,
    results.WriteMetadataResult: _write_metadata,
    results.CheckpointsResult: _checkpoints,
    results.TaskResult: _task,
    results.EraResult: _nothing,
    results.TokenResult: _nothing,
    results.GrantResult: _grant,
    results.LocationResult: _nothing,
    results.VendingResult: _nothing,
}
