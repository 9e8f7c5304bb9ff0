"""The begin of instants, and writes of rows by this process without Spark, which need ``chronolake[arrow]``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from chronolake import calls, errors
from chronolake._async import table_rows
from chronolake._async.table_rows import AsyncTableRows
from chronolake._async.write import AsyncWrite
from chronolake._concurrency import awaiting as concurrency
from chronolake._definitions import PUBLICATION_PAUSES, write_action
from chronolake._http import default_writer
from chronolake.writing import choices
from chronolake_model import operations
from chronolake_model.files import FileGroupName
from chronolake_model.instants import LEASE_SECONDS_DEFAULT, BeginInstant, Instant, Plan, TakeInflight
from chronolake_model.markers import MarkersType
from chronolake_model.vocabulary import Action, IndexType, Operation, State

if TYPE_CHECKING:
    from chronolake.writing.choices import Duplicates, OnConflict
    from chronolake.writing.incoming import GivenRows, Incoming, RowTreatment
    from chronolake.writing.local_writes import WriteResult

_LOG: Final = logging.getLogger("chronolake.writing")


class AsyncTableWrites(AsyncTableRows):
    """The methods of ``AsyncTable`` that begin instants and write rows.

    Rows are a table or a reader of Arrow, a frame of pandas or polars, a dict of columns, or a list of dicts
    with the same keys. They are checked before the instant begins, and held in memory up to some hundred
    megabytes, beyond that on the local disk; the keys of all rows are in memory, unless the table has a bucket
    index. The write is one instant, by the rules of writes by Spark. After a failure, or when the task is
    cancelled, it is rolled back.

    ``extra_metadata`` is published with the instant. With ``on_conflict="retry"`` a write that lost a conflict
    is written again, up to ten times with growing pauses. ``markers`` overrides where the table keeps markers.
    Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``InvalidPartitionValue``, ``InvalidText``,
    ``RequiredValueMissing``, ``InvalidOrderingValue``, ``DuplicateKeys``, ``TableMismatch``, ``WriteConflict``,
    ``InstantRolledBack``; ``ValueError`` if there are no rows.
    """

    async def begin(
        self,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        plan: Plan | None = None,
        markers: MarkersType | None = None,
    ) -> AsyncWrite:
        """Begin an instant; ``writer`` is user@host:pid unless given.

        ``action`` is that of an ordinary write unless given: a commit for a copy-on-write table, a deltacommit
        for a merge-on-read table. ``plan`` has the file groups that the instant will change; compaction, log
        compaction and clustering need one. ``markers`` says where the markers of this write are kept; unless
        given, the table's property ``markers.type`` does. Raises ``ActionNotSupported``, ``InvalidPlan``,
        ``WriteConflict`` (another pending plan has one of the file groups), and ``TableNotFound`` when the
        table was dropped.

        Use the result as a context manager, ``async with await table.begin() as write``, which renews the
        lease; see ``AsyncWrite``.
        """
        action = action or write_action(self.definition.type)
        body = _begin_body(writer, action, operation, lease_seconds, inflight, markers)
        body = msgspec.structs.replace(body, plan=plan)
        try:
            return self._as_write(
                await self._transport.send(calls.call(operations.timeline.BEGIN_INSTANT, self.name, body=body))
            )
        except errors.NotPublishedYet:
            # The plan of a compaction is published before its execution begins.
            body = msgspec.structs.replace(body, inflight=False)
            requested = await self._transport.send(
                calls.call(operations.timeline.BEGIN_INSTANT, self.name, body=body)
            )
            return await self.execute(requested.requested_time, writer=body.writer, lease_seconds=lease_seconds)

    async def begin_many(
        self,
        count: int,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        markers: MarkersType | None = None,
    ) -> list[AsyncWrite]:
        """Begin ``count`` instants in one request, 1,000 at most; see ``begin``."""
        action = action or write_action(self.definition.type)
        body = _begin_body(writer, action, operation, lease_seconds, inflight, markers)
        body = msgspec.structs.replace(body, count=count)
        page = await self._transport.send(calls.timeline.begin_many(self.name, body))
        return [self._as_write(instant) for instant in page.instants]

    async def plan(
        self,
        action: Action,
        file_groups: Iterable[FileGroupName] = (),
        details: Mapping[str, str] | None = None,
        *,
        writer: str | None = None,
        markers: MarkersType | None = None,
    ) -> Instant:
        """Plan a table service: the instant stays requested, without a lease, until ``execute``.

        Raises ``ActionNotSupported``, ``InvalidPlan`` (a file group does not exist), and ``WriteConflict`` when
        another pending plan has one of the file groups.
        """
        body = BeginInstant(
            writer or default_writer(),
            action,
            inflight=False,
            plan=Plan(list(file_groups), dict(details or {})),
            markers=markers,
        )
        return await self._transport.send(calls.call(operations.timeline.BEGIN_INSTANT, self.name, body=body))

    async def execute(
        self,
        requested_time: str,
        *,
        writer: str | None = None,
        lease_seconds: int | None = None,
    ) -> AsyncWrite:
        """Execute a requested plan of this or another writer; the plan is in ``instant.plan`` of the result.

        If the execution fails, see ``AsyncWrite``. Raises ``IllegalTransition`` when another writer executes or
        has executed the plan, and ``NotPublishedYet`` when the plan of a compaction was not published for
        Hudi's readers within 90 seconds.
        """
        body = TakeInflight(writer or default_writer(), lease_seconds)
        call = calls.call(operations.timeline.TAKE_INFLIGHT, self.name, requested_time, body=body)
        for seconds in PUBLICATION_PAUSES:
            try:
                return self._as_write(await self._transport.send(call))
            except errors.NotPublishedYet:
                await concurrency.sleep(seconds)
        return self._as_write(await self._transport.send(call))

    async def upsert(
        self,
        rows: GivenRows,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "fail",
        markers: MarkersType | None = None,
    ) -> WriteResult:
        """Insert new keys, and update those that exist.

        With an ordering field the larger value wins, also against what is stored. Rows of one key that differ,
        and that no ordering field orders, are refused. In a table with the merge mode ``partial-update``,
        columns that the rows lack keep their values.
        """
        return await self._write_rows(
            rows, _treatment(Operation.UPSERT), extra_metadata, on_conflict=on_conflict, markers=markers
        )

    async def insert(
        self,
        rows: GivenRows,
        duplicates: Duplicates = "fail",
        *,
        extra_metadata: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "fail",
        markers: MarkersType | None = None,
    ) -> WriteResult:
        """Add records. A key that exists raises ``DuplicateKeys``, with ``drop`` its row is left out."""
        choices.word("duplicates", duplicates, get_args(choices.Duplicates))
        treatment = _treatment(Operation.INSERT, existing=duplicates, is_based_on_reads=True)
        return await self._write_rows(rows, treatment, extra_metadata, on_conflict=on_conflict, markers=markers)

    async def delete(
        self,
        keys: GivenRows,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "fail",
        markers: MarkersType | None = None,
    ) -> WriteResult:
        """Delete the records with these keys; those that do not exist change nothing.

        ``keys`` are rows with the columns of the record key and the partition, and the ordering field if a
        stored record with a larger value is to stay; other columns are ignored. A list may also have the keys
        alone, if one column finds a record.
        """
        return await self._write_rows(
            keys, _treatment(Operation.DELETE), extra_metadata, on_conflict=on_conflict, markers=markers
        )

    async def overwrite(
        self,
        rows: GivenRows,
        partitions: Literal["dynamic", "all"] | None = None,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "fail",
        markers: MarkersType | None = None,
    ) -> WriteResult:
        """Replace the partitions that ``rows`` has rows of (``dynamic``), or the whole table (``all``).

        ``partitions`` must be given. With ``all`` there may be no rows, which empties the table; a reader must
        give some. Rows that are computed from the table must be of its newest state: what completes before the
        instant begins is replaced. At most 10,000 file groups can be replaced at once.
        """
        treatment = _treatment(Operation.INSERT_OVERWRITE, replaces=choices.replaces(partitions))
        return await self._write_rows(rows, treatment, extra_metadata, on_conflict=on_conflict, markers=markers)

    async def _write_rows(
        self,
        rows: GivenRows,
        treatment: RowTreatment,
        extra_metadata: Mapping[str, str] | None,
        *,
        on_conflict: OnConflict,
        markers: MarkersType | None,
    ) -> WriteResult:
        from chronolake.writing import conflict_retries, counts, incoming, writable_tables  # noqa: PLC0415

        metadata = dict(extra_metadata or {})
        counts.check_metadata(metadata)
        retries = conflict_retries.ConflictRetries(on_conflict)
        self._adopt(await self._transport.send(calls.call(operations.catalog.GET_TABLE, self.name)))
        definition = writable_tables.check(self.definition)
        held = incoming.HeldRows()
        try:
            prepared = await concurrency.run_blocking(incoming.prepare, definition, rows, treatment, held)
            # Nothing is written where another table, or another metastore, has the claim.
            await self.claim_storage()
            while True:
                try:
                    result = await self._write_once(prepared, {**metadata, **retries.metadata}, markers)
                except conflict_retries.LOST as lost:
                    await concurrency.sleep(retries.pause_seconds(lost))
                else:
                    await self._finish_after_write()
                    return result
        finally:
            # Also when the task is cancelled, and its thread goes on.
            held.close()

    async def _write_once(
        self, prepared: Incoming, metadata: Mapping[str, str], markers: MarkersType | None
    ) -> WriteResult:
        from chronolake.writing import local_writes  # noqa: PLC0415

        treatment = prepared.treatment
        action = None if treatment.replaces is None else Action.REPLACECOMMIT
        write = await self.begin(action=action, operation=treatment.operation, markers=markers)
        table = concurrency.blocking_table(self)
        async with write:
            files = await concurrency.run_blocking(local_writes.write, table, prepared, write.instant, markers)
            try:
                await write.complete(
                    files.stats,
                    {**metadata, **files.counts.metadata()},
                    replaced_file_groups=files.replaced,
                    schema_version=files.schema_version,
                    based_on_reads=files.is_based_on_reads,
                    keys_looked_up=files.keys_looked_up,
                )
            except errors.ChronolakeError as failure:
                if not await _has_completed(write, failure):
                    raise
        return local_writes.WriteResult(write.instant, files.counts)

    async def _finish_after_write(self) -> None:
        """Delete the files of earlier writes whose process was killed, and update the record index."""
        if self._location.is_client_executor:
            try:
                await self.finish_rollbacks()
            except (errors.ChronolakeError, OSError) as failure:
                _LOG.warning("%s: pending rollbacks could not be finished: %s", self.name, failure)
        if self.definition.index.type is IndexType.RECORD:
            from chronolake.indexes.record import record_index  # noqa: PLC0415

            await concurrency.run_blocking(record_index.follow, concurrency.blocking_table(self))


def _begin_body(
    writer: str | None,
    action: Action,
    operation: Operation,
    lease_seconds: int,
    inflight: bool,
    markers: MarkersType | None,
) -> BeginInstant:
    return BeginInstant(writer or default_writer(), action, operation, lease_seconds, inflight, markers=markers)


async def _has_completed(write: AsyncWrite, failure: errors.ChronolakeError) -> bool:
    """Whether the instant is published although its completion failed: the answer may have been lost."""
    try:
        return (await write.refresh()).state is State.COMPLETED
    except errors.ChronolakeError:
        if not isinstance(failure, errors.RequestRefused | errors.StorageFailed):
            failure.add_note(
                f"chronolake: instant {write.requested_time} of {write.table} may have completed: look at its "
                "state before you write the rows again"
            )
        return False


def _treatment(
    operation: Operation,
    *,
    existing: str = "merge",
    replaces: choices.Replaces | None = None,
    is_based_on_reads: bool = False,
) -> RowTreatment:
    table_rows.library("pyarrow")
    from chronolake.slices.merge import Existing  # noqa: PLC0415
    from chronolake.writing.incoming import RowTreatment  # noqa: PLC0415

    return RowTreatment(
        operation=operation,
        existing=Existing(existing),
        replaces=replaces,
        is_based_on_reads=is_based_on_reads,
    )
