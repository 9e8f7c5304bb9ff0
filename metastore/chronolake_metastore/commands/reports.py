"""Facts for the decision about a task's report: files in buffers, markers, files of completed instants."""

from __future__ import annotations

from chronolake_metastore.commands.handler import Loading
from chronolake_metastore.domain import streams
from chronolake_metastore.domain.checkpoints import ReportWriteMetadata
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.reported_files import BufferedFile, ReportFacts
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import buffered_files, deletions
from chronolake_metastore.store.markers import InstantRef
from chronolake_model.marker_names import DeletedFile, MarkersType
from chronolake_model.times import Micros


def load(state: State, command: ReportWriteMetadata) -> Loading[ReportFacts] | None:
    """The facts about the files of a report; None if it has none, or no instant takes them."""
    table = state.locked_table(command.table)
    stats = command.write_stats
    if table is None or not stats:
        return None
    requested_time = command.requested_time
    stream = state.streams.get((table.table_id, command.stream))
    if requested_time is None or stream is None:
        return None
    checkpoint = stream.checkpoints.get(command.checkpoint)
    if checkpoint is not None and checkpoint.requested_time == requested_time:
        return _of_pending(table, requested_time, command)
    # A job that began anew may have another instant for the same checkpoint by now.
    return _of_ended(table, requested_time, command) if command.bootstrap else None


def _of_pending(table: Table, requested_time: Micros, command: ReportWriteMetadata) -> Loading[ReportFacts]:
    stats = command.write_stats
    found = buffered_files.find(table.table_id, stats)
    if table.markers_type is MarkersType.DIRECT:
        # The acknowledgement brings the markers, which are in storage until then.
        yield [found]
        return ReportFacts(buffered=found.result)
    unmarked = buffered_files.find_unmarked(
        (table.table_id, requested_time), stats, are_required=table.requires_markers(requested_time)
    )
    yield [found, unmarked]
    return ReportFacts(buffered=found.result, unmarked=unmarked.result)


def _of_ended(table: Table, requested_time: Micros, command: ReportWriteMetadata) -> Loading[ReportFacts]:
    files = [DeletedFile(stat.partition_path, stat.file_name) for stat in command.write_stats]
    published = deletions.published(InstantRef(table.table_id, requested_time), files, withdrawn=False)
    yield [published]
    return ReportFacts(published=published.result)


def in_buffers(
    state: State, table: Table, command: ReportWriteMetadata, facts: ReportFacts
) -> dict[FileGroup, list[BufferedFile]]:
    """The files in buffers of the file groups of a report, as earlier commands of the transaction left them."""
    known: dict[FileGroup, dict[BufferedFile, None]] = {}
    for file in facts.buffered:
        known.setdefault(_group(table, file.partition_path, file.file_id), {})[file] = None
    groups = {_group(table, stat.partition_path, stat.file_id) for stat in command.write_stats}
    for group in groups & state.buffered.keys():
        known.setdefault(group, {}).update(dict.fromkeys(state.buffered[group]))
    present = _Present(state, table)
    return {group: [file for file in files if present.has(file)] for group, files in known.items()}


class _Present:
    """The files that still are in the buffers: an earlier command may have dropped some."""

    def __init__(self, state: State, table: Table) -> None:
        self._streams = {stream.name: stream for stream in state.streams_of(table.table_id)}
        self._versions: dict[tuple[str, int], dict[int, str]] = {}

    def has(self, file: BufferedFile) -> bool:
        """Whether the file is there. No command of the transaction changes an object that is not loaded."""
        stream = self._streams.get(file.stream)
        if stream is None:
            return True
        key = file.stream, file.checkpoint
        if key not in self._versions:
            checkpoint = stream.checkpoints.get(file.checkpoint)
            self._versions[key] = {} if checkpoint is None else streams.tasks_by_version(checkpoint)
        return file.version in self._versions[key]


def _group(table: Table, partition_path: str, file_id: str) -> FileGroup:
    return FileGroup(table.table_id, partition_path, file_id)
