"""/v1/tables/{table}/publication"""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.notes import publication as notes, published_history as note_history
from chronolake_metastore.queries import publication as queries, published_history as history, readiness
from chronolake_model import operations
from chronolake_model.publication import (
    HistoryPage,
    HistoryPlan,
    PlanHistory,
    Publication,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationSteps,
    ReportPublication,
    TakePublicationLease,
)

After = Annotated[
    int, QueryParameter(ge=0, le=2**62, description="The version up to which the table is published.")
]
AfterPartition = Annotated[
    str, QueryParameter(max_length=1_024, description="The partition path after which the page begins.")
]


BeginOfRange = Annotated[str, parameters.time_parameter("begin", "The first requested time of the range.")]
EndOfRange = Annotated[str, parameters.time_parameter("end", "The requested time after the range.")]


@route(operations.streams.GET_PUBLICATION)
async def get_publication(
    table: TableInPath,
    caller: NamedDependency[Caller],
    probe: NamedDependency[readiness.Probe],
) -> Publication:
    """How far the table is published for Hudi's readers.

    `failure` says so if the server does not act for its metastore (`metastore-moved`): then another one may
    publish the table.
    """
    publication = await caller.read(queries.status, parameters.table(table))
    return msgspec.structs.replace(publication, failure=probe.refusal() or publication.failure)


@route(operations.streams.TAKE_PUBLICATION_LEASE)
async def take_publication_lease(
    table: TableInPath,
    data: JSONBody[TakePublicationLease],
    caller: NamedDependency[Caller],
) -> PublicationLease:
    """Become the publisher of the table, or remain it: it executes the steps after the position, and reports.

    A table has one publisher at a time. With each new publisher the epoch grows, and reports of earlier
    publishers are refused.
    """
    refuse_nul(msgspec.json.encode(data))
    lease = await caller.note(notes.take_lease, parameters.table(table), data)
    return notes.document_of_lease(lease)


@route(operations.streams.LIST_PUBLICATION_STEPS)
async def list_publication_steps(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    after: After = 0,
) -> PublicationSteps:
    """List the files to write and to remove below the base path, in the order of the log.

    The same log gives the same bytes. A page ends at some number of events or bytes. A file that exists with
    the same content is done.
    """
    return await caller.read(queries.steps, parameters.table(table), after)


@route(operations.streams.LIST_PUBLICATION_FILES)
async def list_publication_files(
    *, table: TableInPath, caller: NamedDependency[Caller], after: After = 0
) -> PublicationFiles:
    """List the files that publication has put into `.hoodie/timeline`, to compare them with its files."""
    return await caller.read(queries.files, parameters.table(table), after)


@route(operations.streams.LIST_PUBLICATION_PARTITIONS)
async def list_publication_partitions(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    after: AfterPartition = "",
) -> PublicationPartitions:
    """The `.hoodie_partition_metadata` of each partition, up to 1,000 a page: without it, Hudi's Java readers
    leave the partition out.
    """
    return await caller.read(queries.partitions, parameters.table(table), parameters.plain_text("after", after))


@route(operations.streams.PLAN_PUBLICATION_HISTORY)
async def plan_publication_history(
    table: TableInPath, data: JSONBody[PlanHistory], caller: NamedDependency[Caller]
) -> HistoryPlan:
    """Decide which of the oldest instants leave the published active timeline for its history.

    The answer has the files that the history is to have. The publisher writes them, shows them by a manifest,
    reports them, and only then removes the instants from the timeline.
    """
    refuse_nul(msgspec.json.encode(data))
    return await caller.note(note_history.plan, parameters.table(table), data)


@route(operations.streams.LIST_PUBLICATION_HISTORY)
async def list_publication_history(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    begin: BeginOfRange,
    end: EndOfRange,
    after: After = 0,
) -> HistoryPage:
    """List the instants of a range of requested times, as rows of Hudi's archived timeline have them.

    They come in the order of the log, after the version of the page before.
    """
    times = parameters.instant_time("begin", begin), parameters.instant_time("end", end)
    return await caller.read(history.page, parameters.table(table), *times, after)


@route(operations.streams.REPORT_PUBLICATION)
async def report_publication(
    table: TableInPath,
    data: JSONBody[ReportPublication],
    keyed_caller: NamedDependency[Caller],
) -> Publication:
    """Record that the steps up to a version are executed. The position moves forwards only.

    Foreign files that no event has named yet are recorded in the table's log, at most once an hour.
    """
    refuse_nul(msgspec.json.encode(data))
    name = parameters.table(table)
    publication = await keyed_caller.note(notes.report, name, data)
    command = await keyed_caller.read(queries.files_to_record, name, data)
    if command is not None:
        # The caller's key is that of the report. A refusal must not end the publication.
        with contextlib.suppress(errors.TimelineError):
            await keyed_caller.with_key_of_server().execute(command)
    return publication
