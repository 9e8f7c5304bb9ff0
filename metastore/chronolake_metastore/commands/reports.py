"""What a report of a task is decided by: the files in buffers, markers, and the files of completed instants."""

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
from chronolake_model.markers import DeletedFile, MarkersType
from chronolake_model.times import Micros, parse_time


def load(state: State, command: ReportWriteMetadata) -> Loading[ReportFacts] | None:
    """The facts about the files of a report; None if it has none, or no instant takes them."""
    table = state.locked_table(command.table)
    stats = command.request.write_stats
    if table is None or not stats:
        return None
    stream = state.streams.get((table.table_id, command.stream))
    checkpoint = None if stream is None else stream.checkpoints.get(command.request.checkpoint)
    if checkpoint is not None:
        return _of_pending(table, checkpoint.requested_time, command)
    return _of_ended(table, command) if command.request.bootstrap else None


def _of_pending(table: Table, requested_time: Micros, command: ReportWriteMetadata) -> Loading[ReportFacts]:
    stats = command.request.write_stats
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


def _of_ended(table: Table, command: ReportWriteMetadata) -> Loading[ReportFacts]:
    text, stats = command.request.requested_time, command.request.write_stats
    if text is None:
        return ReportFacts()
    files = [DeletedFile(stat.partition_path, stat.file_name) for stat in stats]
    published = deletions.published(InstantRef(table.table_id, parse_time(text)), files)
    yield [published]
    return ReportFacts(published=published.result)


def in_buffers(
    state: State, table: Table, command: ReportWriteMetadata, facts: ReportFacts
) -> dict[FileGroup, list[BufferedFile]]:
    """The files in buffers of the file groups of a report, as earlier commands of the transaction left them."""
    known: dict[FileGroup, dict[BufferedFile, None]] = {}
    for file in facts.buffered:
        known.setdefault(_group(table, file.partition_path, file.file_id), {})[file] = None
    groups = {_group(table, stat.partition_path, stat.file_id) for stat in command.request.write_stats}
    for group in groups & state.buffered.keys():
        known.setdefault(group, {}).update(dict.fromkeys(state.buffered[group]))
    return {
        group: [file for file in files if _is_buffered(state, table, file)] for group, files in known.items()
    }


def _is_buffered(state: State, table: Table, file: BufferedFile) -> bool:
    """Whether the file is still there: an earlier command may have dropped it, or ended its instant."""
    stream = state.streams.get((table.table_id, file.stream))
    if stream is None:
        return True
    checkpoint = stream.checkpoints.get(file.checkpoint)
    return checkpoint is not None and streams.task_of(checkpoint, file.version) is not None


def _group(table: Table, partition_path: str, file_id: str) -> FileGroup:
    return FileGroup(table.table_id, partition_path, file_id)
