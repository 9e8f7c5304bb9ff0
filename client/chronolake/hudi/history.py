"""From a Hudi table as it lies in storage to the request that adopts it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from chronolake.hudi import archived_instants, definitions, keeping, logs, notes, requirements, served
from chronolake.hudi.definitions import TEXT_MAX, CannotAdopt, Options
from chronolake.hudi.served import KnownFile, MissingFile
from chronolake.hudi.stored import StoredInstant, StoredTable
from chronolake.hudi.times import Times
from chronolake_hudi import metadata
from chronolake_hudi.timeline_files import Layout
from chronolake_model.adoption import ADOPTED_INSTANTS_MAX, AdoptedInstant, AdoptTable
from chronolake_model.file_names import DataFileName, FileKind, relative_path
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import LEASE_SECONDS_MAX
from chronolake_model.markers import Marker, MarkerKind
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import EARLIEST_COMMIT_KEY, Action, Operation, State, TableType
from chronolake_storage.files import StoredFile

WRITER: Final = "chronolake hudi adopt"
"""The writer of the adopted instants. The same for each try, so that a repeat is the same request."""
_OPERATIONS: Final[Mapping[str, Operation]] = {
    **{operation.value.upper(): operation for operation in Operation},
    "INSERT_PREPPED": Operation.INSERT,
    "UPSERT_PREPPED": Operation.UPSERT,
    "BULK_INSERT_PREPPED": Operation.BULK_INSERT,
    "DELETE_PREPPED": Operation.DELETE,
    "INSERT_OVERWRITE_TABLE": Operation.INSERT_OVERWRITE,
}
_SERVICES: Final[Mapping[Operation, Action]] = {
    Operation.COMPACT: Action.COMPACTION,
    Operation.LOG_COMPACT: Action.LOGCOMPACTION,
    Operation.CLUSTER: Action.CLUSTERING,
}
_OPERATION_OF: Final = {action: operation for operation, action in _SERVICES.items()}
_DROPPED_PENDING: Final = frozenset({Action.CLEAN, Action.ROLLBACK, Action.INDEXING, Action.SAVEPOINT})
"""Pending, they are removed from the timeline: what they have deleted so far is found missing."""


_NAMED_MAX: Final = 3


class Pending(msgspec.Struct, frozen=True):
    """An instant that Hudi has not completed. ``paths`` are its files of the timeline, ``markers`` of its data
    files. Without ``is_adopted`` it only leaves the timeline."""

    requested_time: str
    action: Action
    state: State
    paths: list[str]
    markers: list[Marker]
    is_adopted: bool


class PlannedAdoption(msgspec.Struct, frozen=True):
    """A request to adopt a table; ``notes`` say what of it differs from Hudi's own view."""

    request: AdoptTable
    pending: list[Pending]
    notes: list[str]


def adoption_of(table: StoredTable, options: Options) -> PlannedAdoption:
    """The request that adopts a table. Raises ``CannotAdopt``, with all reasons that are found."""
    reasons = [*requirements.obstacles(table), *logs.obstacles(table)]
    pending = pending_of(table)
    if pending and not options.roll_back_pending:
        named = ", ".join(f"{instant.action} {instant.requested_time} ({instant.state})" for instant in pending)
        reasons.append(
            f"it has pending instants: {named}; complete or roll them back with Hudi, or give "
            "--roll-back-pending: what they have written is then deleted"
        )
    if table.damaged_history and not options.skip_damaged_history:
        reasons.append(
            f"its archived timeline is damaged: {'; '.join(table.damaged_history[:_NAMED_MAX])}; restore these "
            "files from a copy, or give --skip-damaged-history: the instants in them come in only if they have "
            "files, and earlier times are not served"
        )
    if reasons:
        raise CannotAdopt(reasons)
    return _History(table, options, pending).adoption()


def pending_of(table: StoredTable) -> list[Pending]:
    """The instants of a table that Hudi has not completed."""
    return [_pending(table, instant) for instant in table.instants if instant.state is not State.COMPLETED]


class _History:
    """Builds the instants of one table."""

    def __init__(self, table: StoredTable, options: Options, pending: Sequence[Pending]) -> None:
        self._table = table
        self._options = options
        self._pending = pending
        completed = [instant for instant in table.instants if instant.state is State.COMPLETED]
        writes = [instant for instant in completed if instant.is_completed_write]
        # Of those that are left out only the schema counts. A table without files has nothing else.
        writes = [instant for instant in writes if not instant.is_schema_only] or writes[-1:]
        self._known = archived_instants.detailed(table)
        of_archive = [instant for instant in self._known if instant.commit and not instant.is_schema_only]
        self._writes = [*of_archive, *writes]
        self._cleans = [instant for instant in (*self._known, *completed) if instant.action is Action.CLEAN]
        self._savepoints = [instant for instant in completed if instant.action is Action.SAVEPOINT]
        left_out = {instant.requested_time: instant for instant in (*table.archived.values(), *completed)}
        actions = [instant.action for instant in left_out.values()]
        self._left_out = [action for action in actions if action in archived_instants.WITHOUT_EFFECT]
        writers = logs.writers_of(table)
        self._files: dict[str, list[tuple[StoredFile, DataFileName]]] = {}
        for file, name in table.data_files:
            # A log file of version 6 has the time of its base file in its name.
            is_log = name.kind is FileKind.LOG and file.path in writers
            time = writers[file.path].requested_time if is_log else name.requested_time
            self._files.setdefault(time, []).append((file, name))
        listed = [instant.requested_time for instant in table.instants]
        by_files = self._archived_times()
        # Of the others the newest, as far as the request has room: the history has no gap in it.
        taken = {*listed, *by_files, *(instant.requested_time for instant in self._known)}
        others = archived_instants.times_only(table, taken)
        room = ADOPTED_INSTANTS_MAX - len(taken) - len(self._savepoints)
        first = max(len(others) - max(room, 0), 0)
        self._too_old, self._times_only = others[:first], others[first:]
        archived = sorted([*by_files, *(instant.requested_time for instant in self._times_only)])
        times = [instant.completion_time for instant in table.instants if instant.completion_time is not None]
        self._times = Times([*listed, *archived, *table.archived, *times])
        # Before any time is made up: an instant of the archive may have completed in the next millisecond.
        self._stated = {
            time: instant.completion_time
            for time, instant in table.archived.items()
            if instant.completion_time is not None and self._times.take(instant.completion_time)
        }
        self._completions = {
            instant.requested_time: self._completion_of(instant)
            for instant in sorted([*self._writes, *self._cleans], key=lambda instant: instant.requested_time)
        }
        self._archived = {time: self._completion_of_archived(time) for time in archived}

    def adoption(self) -> PlannedAdoption:
        """The request, with its notes."""
        cleaned_before = self._first_servable()
        instants = [
            *(self._archived_instant(time) for time in sorted(self._archived)),
            *(self._write(instant) for instant in self._writes),
            *self._cleans_of(cleaned_before),
            *(self._savepoint(instant) for instant in self._savepoints),
            *(self._pending_instant(instant) for instant in self._pending if instant.is_adopted),
        ]
        if len(instants) > ADOPTED_INSTANTS_MAX:
            raise CannotAdopt(
                [
                    f"it has {len(instants):,} instants whose files exist, or which are active, and a table is "
                    f"adopted with at most {ADOPTED_INSTANTS_MAX:,}: let Hudi archive, clean or cluster it "
                    "first, so that files of fewer commits remain"
                ]
            )
        request = AdoptTable(
            definition=definitions.definition_of(self._table, self._options),
            instants=sorted(instants, key=lambda instant: instant.requested_time),
            writer=WRITER,
            cleaned_before=cleaned_before,
            left_out=notes.left_out_of_archive(self._table, self._too_old),
            is_published=self._table.layout is Layout.TWO,
            # No server rolls back what Hudi may still complete: first the folder is guarded.
            lease_seconds=LEASE_SECONDS_MAX,
        )
        return PlannedAdoption(request, list(self._pending), self._notes(cleaned_before))

    def _completion_of(self, instant: StoredInstant) -> str:
        if instant.is_archived:
            return self._stated.get(instant.requested_time) or self._times.after(instant.requested_time)
        if instant.completion_time is None or instant.is_schema_only:
            return self._times.after(instant.requested_time)
        return instant.completion_time

    def _archived_times(self) -> list[str]:
        """The requested times of files that are older than the active timeline: Hudi counts them as data."""
        first = self._table.first_active
        listed = {instant.requested_time for instant in (*self._table.instants, *self._writes)}
        return sorted(
            time
            for time, files in self._files.items()
            if time not in listed and first is not None and time < first and any(map(self._is_archived, files))
        )

    def _is_archived(self, entry: tuple[StoredFile, DataFileName]) -> bool:
        """Whether a file is that of the archived instant in its name, as log files of version 6 are not."""
        return entry[1].kind is FileKind.BASE or self._table.layout is Layout.TWO

    def _completion_of_archived(self, time: str) -> tuple[str, str | None]:
        """The completion time of an archived instant, and its action if the archive says it."""
        instant = self._table.archived.get(time)
        completion = self._stated.get(time) or self._times.after(time)
        return completion, None if instant is None else instant.action

    def _first_servable(self) -> str | None:
        border = self._border()
        try:
            time = served.first_servable(self._known_files(), self._writes, self._completions, border)
        except MissingFile as missing:
            raise CannotAdopt(
                [f"the file {missing.path} is live and not there; the table is damaged: restore it first"]
            ) from missing
        times = [time] if time is not None else []
        has_guessed = any(map(self._unnamed, filter(lambda write: write.is_archived, self._writes)))
        unknown = [self._archived[instant.requested_time] for instant in self._writes_of(self._times_only)]
        by_files = len(self._archived) > len(self._times_only)
        is_partial = by_files or has_guessed or self._writes_of(self._too_old) or self._table.damaged_history
        if unknown or is_partial:
            times.append(max([border, *(completion for completion, _ in unknown)]))
        return max(times, default=None)

    def _border(self) -> str:
        """The completion of the first active write, or else of the last archived one; empty without any."""
        first = self._table.first_active or ""
        active = [write.requested_time for write in self._writes if not write.is_archived]
        if any(time >= first for time in active):
            return self._completions[min(time for time in active if time >= first)]
        return max([*self._completions.values(), *(time for time, _ in self._archived.values())], default="")

    @staticmethod
    def _writes_of(instants: Iterable[StoredInstant]) -> list[StoredInstant]:
        return [instant for instant in instants if instant.is_completed_write]

    def _known_files(self) -> Iterator[KnownFile]:
        present = {file.path for file, _ in self._table.data_files}
        for time, (completion, _) in self._archived.items():
            for file, name in filter(self._is_archived, self._files.get(time, ())):
                yield KnownFile(
                    (file.partition_path, name.file_id), file.path, name.kind, time, completion, exists=True
                )
        for instant in self._writes:
            completion = self._completions[instant.requested_time]
            for partition_path, stat in _stats(instant):
                yield KnownFile(
                    (partition_path, stat.file_id),
                    stat.path,
                    _kind(stat),
                    instant.requested_time,
                    completion,
                    stat.path in present,
                    instant.is_archived,
                )
            for file, name in self._unnamed(instant):
                group = (file.partition_path, name.file_id)
                yield KnownFile(group, file.path, name.kind, instant.requested_time, completion, exists=True)

    def _archived_instant(self, time: str) -> AdoptedInstant:
        completion, action = self._archived[time]
        if action == Action.CLEAN:
            return AdoptedInstant(requested_time=time, action=Action.CLEAN, completion_time=completion)
        files = list(filter(self._is_archived, self._files.get(time, ())))
        is_copy_on_write = self._table.config.type is TableType.COPY_ON_WRITE
        is_compaction = not is_copy_on_write and action == Action.COMMIT
        begun = Action.COMMIT if is_copy_on_write else Action.DELTACOMMIT
        if is_compaction:
            begun = Action.COMPACTION
        elif action == Action.REPLACECOMMIT:
            begun = Action.REPLACECOMMIT
        return AdoptedInstant(
            requested_time=time,
            action=begun,
            completion_time=completion,
            operation=_OPERATION_OF.get(begun, Operation.UNKNOWN),
            write_stats=[self._guessed_stat(file, name) for file, name in files],
        )

    def _guessed_stat(self, file: StoredFile, name: DataFileName) -> WriteStat:
        records = self._table.records.get(file.path, 0)
        return WriteStat(file.partition_path, name.file_id, file.file_name, file.size_bytes, records=records)

    def _write(self, instant: StoredInstant) -> AdoptedInstant:
        assert instant.commit is not None
        action, operation = self._action_of(instant)
        return AdoptedInstant(
            requested_time=instant.requested_time,
            action=action,
            completion_time=self._completions[instant.requested_time],
            operation=operation,
            write_stats=self._write_stats(instant),
            extra_metadata=archived_instants.extra_metadata(instant.commit.extra_metadata),
            replaced_file_groups=[
                FileGroupName(path, file_id)
                for path, ids in sorted(instant.replaced.items())
                for file_id in ids
            ],
        )

    def _action_of(self, instant: StoredInstant) -> tuple[Action, Operation]:
        assert instant.commit is not None
        operation = _OPERATIONS.get(instant.commit.operation_type or "", Operation.UNKNOWN)
        is_merge_on_read = self._table.config.type is TableType.MERGE_ON_READ
        if instant.action is Action.COMMIT and is_merge_on_read:
            return Action.COMPACTION, Operation.COMPACT
        if instant.action is Action.DELTACOMMIT and operation is Operation.LOG_COMPACT:
            return Action.LOGCOMPACTION, operation
        if instant.action is Action.REPLACECOMMIT and operation is Operation.CLUSTER:
            return Action.CLUSTERING, operation
        return instant.action, Operation.UNKNOWN if operation in _SERVICES else operation

    def _write_stats(self, instant: StoredInstant) -> list[WriteStat]:
        """The files of an instant that are there. Raises ``CannotAdopt``."""
        present = {file.path: file for file, _ in self._files.get(instant.requested_time, ())}
        stats = []
        for partition_path, stat in _stats(instant):
            file = present.get(stat.path)
            if file is None:
                continue
            is_whole = file.size_bytes == stat.file_size_in_bytes
            if _kind(stat) is FileKind.BASE and not is_whole and not instant.is_archived:
                raise CannotAdopt(
                    [
                        f"the file {stat.path} has {file.size_bytes} bytes, and its commit says "
                        f"{stat.file_size_in_bytes}; the table is damaged: restore the file first"
                    ]
                )
            stats.append(
                WriteStat(
                    partition_path,
                    stat.file_id,
                    file.file_name,
                    file.size_bytes,
                    records=max(stat.num_writes, 0),
                    inserts=max(stat.num_inserts, 0),
                    updates=max(stat.num_update_writes, 0),
                    deletes=max(stat.num_deletes, 0),
                )
            )
        unnamed = self._unnamed(instant)
        if instant.is_archived:
            # Hudi's readers count all files of an archived instant.
            return [*stats, *(self._guessed_stat(file, name) for file, name in unnamed)]
        if unnamed:
            raise CannotAdopt(
                [
                    f"the file {unnamed[0][0].path} is of the completed instant {instant.requested_time}, "
                    "which does not name it, so readers of Hudi may count its records twice; find out, and "
                    "remove it"
                ]
            )
        return stats

    def _unnamed(self, instant: StoredInstant) -> list[tuple[StoredFile, DataFileName]]:
        """The files of an instant that it does not name.

        A log file of layout 1 that no instant names has only blocks that do not count.
        """
        named = {stat.path for _, stat in _stats(instant)}
        return [
            (file, name)
            for file, name in self._files.get(instant.requested_time, ())
            if file.path not in named and not (self._table.layout is Layout.ONE and name.kind is FileKind.LOG)
        ]

    def _cleans_of(self, cleaned_before: str | None) -> Iterator[AdoptedInstant]:
        last = max((clean.requested_time for clean in self._cleans), default=None)
        for instant in self._cleans:
            assert instant.clean is not None
            completion = self._completions[instant.requested_time]
            bounds = (
                cleaned_before is not None and instant.requested_time == last and cleaned_before < completion
            )
            yield AdoptedInstant(
                requested_time=instant.requested_time,
                action=Action.CLEAN,
                completion_time=completion,
                extra_metadata={
                    EARLIEST_COMMIT_KEY: instant.clean.earliest_commit_to_retain,
                    "hudi.total-files-deleted": str(instant.clean.total_files_deleted),
                },
                cleaned_before=cleaned_before if bounds else None,
            )

    def _savepoint(self, instant: StoredInstant) -> AdoptedInstant:
        assert instant.savepoint is not None
        target = instant.requested_time
        completed = self._completions.get(target) or self._archived.get(target, (None, None))[0]
        if completed is None:
            raise CannotAdopt(
                [f"the savepoint {target} pins an instant that is not on the timeline; delete it"]
            )
        self._check_saved_files(instant)
        completion = instant.completion_time
        if completion is None:
            made = format_time(Micros(instant.savepoint.savepointed_at * 1_000))
            completion = made if made > completed and self._times.take(made) else self._times.after(completed)
        requested = self._times.before(completion)
        if requested <= completed:
            raise CannotAdopt([f"the savepoint {target} completes at {completion}, too soon after its instant"])
        comment = instant.savepoint.comments
        return AdoptedInstant(
            requested_time=requested,
            action=Action.SAVEPOINT,
            completion_time=completion,
            target=target,
            extra_metadata={"comment": comment[:TEXT_MAX]} if comment else {},
        )

    def _check_saved_files(self, instant: StoredInstant) -> None:
        assert instant.savepoint is not None
        present = {file.path for file, _ in self._table.data_files}
        for path, saved in instant.savepoint.partition_metadata.items():
            for name in saved.savepoint_data_file:
                if relative_path(path, name) not in present:
                    raise CannotAdopt(
                        [
                            f"the savepoint {instant.requested_time} keeps {relative_path(path, name)}, "
                            "which is not there; delete the savepoint with Hudi"
                        ]
                    )

    def _pending_instant(self, pending: Pending) -> AdoptedInstant:
        plan = next(
            instant.plan for instant in self._table.instants if instant.requested_time == pending.requested_time
        )
        groups = [FileGroupName(op.partition_path, op.file_id) for op in plan.operations] if plan else []
        return AdoptedInstant(
            requested_time=pending.requested_time,
            action=pending.action,
            operation=_OPERATION_OF.get(pending.action, Operation.UNKNOWN),
            planned_file_groups=groups,
        )

    def _notes(self, cleaned_before: str | None) -> list[str]:
        known = {*self._completions, *self._archived, *(instant.requested_time for instant in self._pending)}
        left_over = [file.path for time in self._files for file, _ in self._files[time] if time not in known]
        return [
            *notes.of_archive(
                self._table,
                archived=sorted({*self._archived} - {instant.requested_time for instant in self._times_only}),
                known=len(self._known),
                times_only=len(self._times_only),
            ),
            *notes.left_out_of_archive(self._table, self._too_old),
            *notes.of_adoption(
                self._table,
                kept=keeping.of(self._table, requirements.schema_of(self._table)),
                is_hidden=keeping.of_paths_by_generator(self._table),
                left_out=self._left_out,
                left_over=left_over,
                cleaned_before=cleaned_before,
            ),
        ]


def _pending(table: StoredTable, instant: StoredInstant) -> Pending:
    action = instant.action
    is_compaction = action is Action.COMMIT and table.config.type is TableType.MERGE_ON_READ
    if is_compaction or (instant.plan is not None and action is not Action.LOGCOMPACTION):
        action = Action.COMPACTION
    if action is Action.CLUSTERING:
        # What it would replace is in a plan that only Hudi reads; without it, a replace commit is undone alike.
        action = Action.REPLACECOMMIT
    groups = {
        (file.partition_path, name.file_id)
        for file, name in table.data_files
        if name.kind is FileKind.BASE and name.requested_time < instant.requested_time
    }
    markers = [
        Marker(file.partition_path, file.file_name, _marker_kind(file, name, groups))
        for file, name in table.data_files
        if name.requested_time == instant.requested_time
        and (table.layout is Layout.TWO or name.kind is FileKind.BASE)
    ]
    is_adopted = action not in _DROPPED_PENDING
    return Pending(instant.requested_time, action, instant.state, instant.paths, markers, is_adopted)


def _marker_kind(file: StoredFile, name: DataFileName, groups: Iterable[tuple[str, str]]) -> MarkerKind:
    if name.kind is FileKind.LOG:
        return MarkerKind.APPEND
    return MarkerKind.MERGE if (file.partition_path, name.file_id) in groups else MarkerKind.CREATE


def _stats(instant: StoredInstant) -> Iterator[tuple[str, metadata.HudiWriteStat]]:
    assert instant.commit is not None
    for partition_path, stats in instant.commit.partition_to_write_stats.items():
        for stat in stats:
            if stat.path:
                yield partition_path, stat


def _kind(stat: metadata.HudiWriteStat) -> FileKind:
    return FileKind.LOG if stat.path.rpartition("/")[2].startswith(".") else FileKind.BASE
