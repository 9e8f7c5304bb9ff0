"""Files in ``.hoodie`` for Hudi's readers, as a function of a table's log (docs/concepts/hudi.md).

Each event gives a step: files to write and files to remove. The same log gives the same bytes, so a
step that is executed again writes the bytes that are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from chronolake_hudi import avro_schema, metadata, partition_metadata, properties, timeline_files
from chronolake_hudi.metadata import CommitMetadata, CompactionOperation, ReplaceCommitMetadata
from chronolake_hudi.properties import HudiMergeMode, TableConfig, TableVersion
from chronolake_hudi.timeline_files import Layout
from chronolake_metastore.domain import events
from chronolake_metastore.domain.actions import COMPLETED_WRITES, RULES
from chronolake_metastore.domain.events import InstantCompleted, InstantRequested, Payload
from chronolake_metastore.domain.tables import Definition
from chronolake_model import merge_modes
from chronolake_model.file_names import FileKind, relative_path
from chronolake_model.files import FileGroupName
from chronolake_model.names import split_table_name
from chronolake_model.partition_paths import Spelling
from chronolake_model.publication import (
    TABLE_VERSION_PROPERTY,
    HistoryInstant,
    PublicationStep,
    PublishedFile,
)
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import ADOPTED_PROPERTY, Action, Operation, TableType

DATABASE_KEY: Final = "hoodie.database.name"
_TIMELINE: Final = Layout.TWO.folder


class LogEvent(msgspec.Struct, frozen=True):
    """An event as publication needs it."""

    version: int
    time: Micros
    instant: Micros | None
    payload: Payload


class InstantFacts(msgspec.Struct, frozen=True):
    """Facts of an instant that never change: how it was begun, and the instant that it undoes or pins."""

    begun_as: Action
    operation: Operation
    target: Micros | None = None
    cleaned_before: Micros | None = None
    earliest_commit_to_retain: Micros | None = None


class WrittenFile(msgspec.Struct, frozen=True):
    """A data file of a completed instant.

    ``previous_base`` is the base file's requested time in the file group before. ``is_first`` says whether no
    file of the partition completed before the instant.
    """

    partition_path: str
    file_id: str
    file_name: str
    kind: FileKind
    size_bytes: int
    records: int
    inserts: int
    updates: int
    deletes: int
    previous_base: Micros | None
    is_first: bool


class LiveFile(msgspec.Struct, frozen=True):
    """A file of a file slice that a plan names, or that a savepoint keeps."""

    partition_path: str
    file_id: str
    file_name: str
    kind: FileKind
    requested_time: Micros


class UndoneInstant(msgspec.Struct, frozen=True):
    """An instant that a rollback or a restore undid; ``completion_time`` is None if it was pending."""

    requested_time: Micros
    completion_time: Micros | None
    begun_as: Action


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that are loaded for the steps of a page of events.

    ``definitions`` are the definitions of the table by the version of the event that made each, in order.
    Other facts are by the requested time of their instant: ``plans`` and ``saved`` have the live files of a
    compaction's plan and of a savepoint, ``planned`` the file groups of the plan, ``undone`` what a rollback or
    a restore undid, ``written`` the files of a completed instant, ``replaced`` its replaced file groups,
    ``retained`` the earliest commit to retain of a clean, ``last_completed`` the last write before it,
    ``pinned`` the instants that savepoints pinned then, and ``purged`` the undone compactions whose files it
    has deleted. ``released`` are the completion times of savepoints that were released.
    ``unreadable`` is the first version that Hudi's readers cannot read, with the reason.
    """

    table_id: str
    created_at: Micros
    definitions: Sequence[tuple[int, Definition]]
    events: Sequence[LogEvent]
    instants: Mapping[Micros, InstantFacts] = {}
    written: Mapping[Micros, Sequence[WrittenFile]] = {}
    replaced: Mapping[Micros, Sequence[FileGroupName]] = {}
    planned: Mapping[Micros, Sequence[FileGroupName]] = {}
    plans: Mapping[Micros, Sequence[LiveFile]] = {}
    saved: Mapping[Micros, Sequence[LiveFile]] = {}
    undone: Mapping[Micros, Sequence[UndoneInstant]] = {}
    retained: Mapping[Micros, Micros] = {}
    last_completed: Mapping[Micros, Micros] = {}
    pinned: Mapping[Micros, Sequence[Micros]] = {}
    purged: Mapping[Micros, Sequence[Micros]] = {}
    released: Mapping[Micros, Micros] = {}


_Content = Callable[[Definition], metadata.Metadata]


class Builder:
    """Makes the steps of one page of events."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._schemas: dict[tuple[str, int], str] = {}
        """By the name of the table, which is part of a schema, and the version."""

    def steps(self, hidden_until: int | None) -> Iterator[PublicationStep]:
        """The steps in the order of the log, without the empty ones.

        Up to ``hidden_until`` readers find no table: ``hoodie.properties`` is removed first, and written by the
        step of that version.
        """
        for number, event in enumerate(self._material.events):
            definition = self._definition(event.version)
            writes = list(self._writes(event, definition))
            removes = list(self._removes(event))
            is_hidden = hidden_until is not None and event.version < hidden_until
            if is_hidden and number == 0 and event.version > 1:
                removes.append(properties.PATH)
            if event.version == hidden_until or (self._changes_properties(event) and not is_hidden):
                writes.append(self._properties(definition))
            if writes or removes:
                yield PublicationStep(event.version, writes, removes)

    def names(self) -> Iterator[tuple[int, str, bool]]:
        """Each file of the timeline that an event writes (True) or removes (False), with its version.

        The contents of the files are not needed for it.
        """
        for event in self._material.events:
            for path, _ in self._timeline_files(event):
                yield event.version, path, True
            for path in self._removes(event):
                yield event.version, path, False

    def history(self) -> Iterator[HistoryInstant]:
        """The completed instants of the events, but savepoints, as they were published."""
        for event in self._material.events:
            definition = self._definition(event.version)
            for path, content in self._timeline_files(event):
                file = timeline_files.parse_name(path.rpartition("/")[2])
                if file.completion_time is None or file.action is Action.SAVEPOINT:
                    continue
                yield HistoryInstant(
                    file.requested_time,
                    file.completion_time,
                    file.action,
                    metadata.encode(content(definition)),
                    self._plan_of_completed(event),
                )

    def _plan_of_completed(self, event: LogEvent) -> bytes | None:
        """The content of the requested file of an instant, which only a compaction has."""
        if event.instant is None or self._material.instants[event.instant].begun_as is not Action.COMPACTION:
            return None
        return metadata.encode(self._plan(event.instant))

    def properties(self) -> bytes:
        """The content of ``hoodie.properties`` by the last definition."""
        return self._properties(self._material.definitions[-1][1]).content

    def _definition(self, version: int) -> Definition:
        return next(made for at, made in reversed(self._material.definitions) if at <= version)

    def _changes_properties(self, event: LogEvent) -> bool:
        if isinstance(event.payload, events.TableCreated):
            return True
        if not isinstance(event.payload, events.TableAltered):
            return False
        before = self._properties(self._definition(event.version - 1))
        return before != self._properties(self._definition(event.version))

    def _properties(self, definition: Definition) -> PublishedFile:
        return PublishedFile(properties.PATH, properties.encode(config_of(self._material.table_id, definition)))

    def _writes(self, event: LogEvent, definition: Definition) -> Iterator[PublishedFile]:
        if isinstance(event.payload, InstantCompleted):
            assert event.instant is not None
            yield from self._partitions(event.instant)
        for path, content in self._timeline_files(event):
            yield PublishedFile(path, metadata.encode(content(definition)))

    def _partitions(self, requested_time: Micros) -> Iterator[PublishedFile]:
        """The metadata of the partitions that the instant has opened: without it Java leaves them out."""
        written = self._material.written.get(requested_time, ())
        for partition_path in sorted({file.partition_path for file in written if file.is_first}):
            yield partition_file(partition_path, requested_time)

    def _timeline_files(self, event: LogEvent) -> Iterator[tuple[str, _Content]]:
        """The files of the timeline that an event writes, each with what makes its content."""
        match event.payload:
            case events.TableCreated() | events.TableSchemaChanged():
                # A commit without files. The first one lets the list begin before any file of the table: a file
                # that is older than the list would count as data.
                name = _completed(event.time, event.time, self._write_action)
                yield name, lambda definition: self._commit(definition, Operation.UNKNOWN, {})
            case InstantRequested(action=Action.COMPACTION):
                yield _requested(event.time, Action.COMPACTION), lambda _: self._plan(event.time)
            case InstantCompleted():
                yield from self._completed_files(event)
            case _:
                pass

    def _completed_files(self, event: LogEvent) -> Iterator[tuple[str, _Content]]:
        requested_time, facts = self._instant(event)
        if RULES[facts.begun_as].completed_as in COMPLETED_WRITES:
            name = _completed(requested_time, event.time, facts.begun_as)
            yield name, lambda definition: self._write(definition, event)
        elif facts.begun_as is Action.CLEAN and requested_time in self._material.retained:
            yield (
                _completed(requested_time, event.time, Action.CLEAN),
                lambda _: self._clean(requested_time),
            )
        elif facts.begun_as is Action.SAVEPOINT:
            assert facts.target is not None
            yield _completed(facts.target, event.time, Action.SAVEPOINT), lambda _: self._savepoint(event)

    def _removes(self, event: LogEvent) -> Iterator[str]:
        """The files that an event removes: after the deletion of data files that they keep from being read."""
        match event.payload:
            case events.SavepointReleased():
                requested_time, facts = self._instant(event)
                assert facts.target is not None
                yield _completed(facts.target, self._material.released[requested_time], Action.SAVEPOINT)
            case InstantCompleted():
                requested_time, _ = self._instant(event)
                for undone in self._material.undone.get(requested_time, ()):
                    yield from _of_undone(undone)
                for compaction in self._material.purged.get(requested_time, ()):
                    yield _requested(compaction, Action.COMPACTION)
            case _:
                pass

    @property
    def _write_action(self) -> Action:
        table_type = self._material.definitions[0][1].type
        return Action.COMMIT if table_type is TableType.COPY_ON_WRITE else Action.DELTACOMMIT

    def _instant(self, event: LogEvent) -> tuple[Micros, InstantFacts]:
        assert event.instant is not None
        return event.instant, self._material.instants[event.instant]

    def _write(self, definition: Definition, event: LogEvent) -> CommitMetadata:
        requested_time, facts = self._instant(event)
        assert isinstance(event.payload, InstantCompleted)
        stats: dict[str, list[metadata.HudiWriteStat]] = {}
        for file in self._material.written.get(requested_time, ()):
            stats.setdefault(file.partition_path, []).append(_stat(file))
        commit = self._commit(definition, facts.operation, event.payload.extra_metadata)
        commit = msgspec.structs.replace(
            commit, partition_to_write_stats=stats, compacted=facts.begun_as is Action.COMPACTION
        )
        if RULES[facts.begun_as].completed_as is not Action.REPLACECOMMIT:
            return commit
        replaced: dict[str, list[str]] = {}
        for group in self._material.replaced.get(requested_time, ()):
            replaced.setdefault(group.partition_path, []).append(group.file_id)
        return ReplaceCommitMetadata(
            partition_to_write_stats=commit.partition_to_write_stats,
            extra_metadata=commit.extra_metadata,
            operation_type=commit.operation_type,
            partition_to_replace_file_ids=replaced,
        )

    def _commit(
        self, definition: Definition, operation: Operation, extra_metadata: Mapping[str, str]
    ) -> CommitMetadata:
        named_version = (definition.name, definition.schema_version)
        if named_version not in self._schemas:
            self._schemas[named_version] = schema_of(definition)
        return CommitMetadata(
            extra_metadata={**extra_metadata, metadata.SCHEMA_KEY: self._schemas[named_version]},
            operation_type=metadata.operation_type(operation),
        )

    def _plan(self, requested_time: Micros) -> metadata.CompactionPlan:
        slices: dict[tuple[str, str], list[LiveFile]] = {
            (group.partition_path, group.file_id): []
            for group in self._material.planned.get(requested_time, ())
        }
        for file in self._material.plans.get(requested_time, ()):
            slices.setdefault((file.partition_path, file.file_id), []).append(file)
        return metadata.CompactionPlan([_operation(requested_time, *group) for group in slices.items()])

    def _clean(self, requested_time: Micros) -> metadata.CleanMetadata:
        pinned = self._material.pinned.get(requested_time, ())
        return metadata.CleanMetadata(
            format_time(requested_time),
            format_time(self._material.retained[requested_time]),
            last_completed_commit_timestamp=format_time(self._material.last_completed[requested_time]),
            extra_metadata={metadata.SAVEPOINTS_KEY: ",".join(map(format_time, pinned))} if pinned else None,
        )

    def _savepoint(self, event: LogEvent) -> metadata.SavepointMetadata:
        requested_time, _ = self._instant(event)
        assert isinstance(event.payload, InstantCompleted)
        kept: dict[str, list[str]] = {}
        for file in self._material.saved.get(requested_time, ()):
            kept.setdefault(file.partition_path, []).append(file.file_name)
        return metadata.SavepointMetadata(
            savepointed_by="chronolake",
            savepointed_at=event.time // 1_000,
            comments=event.payload.extra_metadata.get("comment", ""),
            partition_metadata={path: metadata.SavepointPartition(path, names) for path, names in kept.items()},
        )


def config_of(table_id: str, definition: Definition) -> TableConfig:
    """The properties of the table for Hudi's readers, guarded against Hudi's writers."""
    namespace, name = split_table_name(definition.name)
    # Where the later write wins, Hudi's readers must not compare the ordering fields.
    ordering = merge_modes.merge_fields(definition.ordering_field, definition.properties)
    mode = HudiMergeMode.EVENT_TIME if ordering else HudiMergeMode.COMMIT_TIME
    version = TableVersion(int(definition.properties.get(TABLE_VERSION_PROPERTY, TableVersion.EIGHT)))
    before = definition.properties.get(ADOPTED_PROPERTY)
    if before is not None:
        return properties.adopted(before, table_id, version, mode)
    spelling = Spelling.of(definition.properties)
    return TableConfig(
        name=name,
        type=definition.type,
        version=version,
        record_key_fields=tuple(definition.record_key_fields),
        partition_fields=tuple(definition.partition_fields),
        ordering_fields=ordering,
        merge_mode=mode,
        hive_style_partitioning=spelling.hive_style,
        url_encode_partitioning=spelling.url_encode,
        key_generator_class=properties.GUARD_CLASS,
        others={properties.TABLE_ID_KEY: table_id, DATABASE_KEY: namespace},
    )


def requested_time_of(path: str) -> str:
    """The requested time in the name of a file of the timeline."""
    return timeline_files.parse_name(path.rpartition("/")[2]).requested_time


def partition_file(partition_path: str, time: Micros) -> PublishedFile:
    """The metadata of a partition. Readers need its depth; ``time`` is that of the instant that opened it."""
    content = partition_metadata.PartitionMetadata(
        format_time(time), partition_metadata.depth_of(partition_path)
    )
    path = relative_path(partition_path, partition_metadata.FILE_NAME)
    return PublishedFile(path, partition_metadata.encode(content))


def schema_of(definition: Definition) -> str:
    """The table's schema in Avro, as JSON."""
    _, name = split_table_name(definition.name)
    return avro_schema.encode(avro_schema.of_table(name, definition.schema, meta=False))


def _stat(file: WrittenFile) -> metadata.HudiWriteStat:
    previous = metadata.NO_COMMIT if file.previous_base is None else format_time(file.previous_base)
    is_log = file.kind is FileKind.LOG
    return metadata.HudiWriteStat(
        file_id=file.file_id,
        path=relative_path(file.partition_path, file.file_name),
        partition_path=file.partition_path,
        file_size_in_bytes=file.size_bytes,
        prev_commit=previous,
        num_writes=file.records,
        num_inserts=file.inserts,
        num_update_writes=file.updates,
        num_deletes=file.deletes,
        total_write_bytes=file.size_bytes,
        log_version=_log_version(file.file_name) if is_log else None,
        log_offset=0 if is_log else None,
        log_files=[file.file_name] if is_log else None,
    )


def _log_version(file_name: str) -> int:
    return int(file_name.rpartition(".log.")[2].partition("_")[0])


def _operation(
    requested_time: Micros, group: tuple[str, str], files: Sequence[LiveFile]
) -> CompactionOperation:
    base = next((file for file in files if file.kind is FileKind.BASE), None)
    oldest = min((file.requested_time for file in files), default=requested_time)
    return CompactionOperation(
        file_id=group[1],
        base_instant_time=format_time(oldest if base is None else base.requested_time),
        partition_path=group[0],
        data_file_path=None if base is None else base.file_name,
        delta_file_paths=[file.file_name for file in files if file.kind is FileKind.LOG],
    )


def _of_undone(undone: UndoneInstant) -> Iterator[str]:
    """The files to remove of an undone instant.

    The plan of a completed compaction stays until its files are deleted: Hudi's readers would attach later log
    files to its base file, and leave them out.
    """
    if undone.completion_time is not None:
        yield _completed(undone.requested_time, undone.completion_time, undone.begun_as)
    elif undone.begun_as is Action.COMPACTION:
        yield _requested(undone.requested_time, Action.COMPACTION)


def _completed(requested_time: Micros, completion_time: Micros, action: Action) -> str:
    name = timeline_files.completed_name(format_time(requested_time), format_time(completion_time), action)
    return f"{_TIMELINE}/{name}"


def _requested(requested_time: Micros, action: Action) -> str:
    return f"{_TIMELINE}/{timeline_files.requested_name(format_time(requested_time), action)}"
