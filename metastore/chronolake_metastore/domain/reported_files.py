"""Files that tasks of streams report: what makes a report that its checkpoint could not complete with.

An acknowledgement is a promise, so a report is one too: a file that could never complete is refused here
(docs/decisions/0058-streams.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import reconciling, streams
from chronolake_metastore.domain.checkpoints import ReportWriteMetadata
from chronolake_metastore.domain.conflicts import COMPLETED, GroupChange, Rule
from chronolake_metastore.domain.files import FileGroup, kind_of
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.streams import Checkpoint, Stream
from chronolake_metastore.domain.tables import Table
from chronolake_model.file_names import FileKind
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Touch


class BufferedFile(msgspec.Struct, frozen=True):
    """A file in the buffer of a stream, reported for the pending instant of a checkpoint."""

    partition_path: str
    file_id: str
    file_name: str
    touch: Touch
    requested_time: Micros
    version: int
    """The event that staged it."""
    counts: tuple[int, ...]
    """The counts that all reports of one file must have in common (``counts_of``)."""
    stream: str
    checkpoint: int
    is_blocking: bool


class ReportFacts(msgspec.Struct, frozen=True):
    """The facts about the files of a report.

    ``buffered`` are the same files in buffers of the table's streams, and those of the same file groups.
    ``unmarked`` are the files without a marker, if the instant has to have markers. ``published`` are those
    that the completed instant has which the report names.
    """

    buffered: Sequence[BufferedFile] = ()
    unmarked: Sequence[DeletedFile] = ()
    published: Sequence[DeletedFile] = ()


NO_FACTS: Final = ReportFacts()
_NO_VERSION: Final = 0


def counts_of(stat: WriteStat) -> tuple[int, ...]:
    """The counts that all reports of one file must have in common."""
    return stat.size_bytes, stat.records, stat.inserts, stat.updates, stat.deletes


def touch_of(stat: WriteStat) -> Touch:
    """How the file changes its file group."""
    return Touch.LOG if kind_of(stat) is FileKind.LOG else Touch.BASE


def buffered(
    stats: Iterable[WriteStat], version: int, stream: str, number: int, checkpoint: Checkpoint
) -> list[BufferedFile]:
    """The files that an event has staged for a checkpoint, as the buffer has them."""
    return [
        BufferedFile(
            stat.partition_path,
            stat.file_id,
            stat.file_name,
            touch_of(stat),
            checkpoint.requested_time,
            version,
            counts_of(stat),
            stream,
            number,
            checkpoint.is_blocking,
        )
        for stat in stats
    ]


def unreported(
    table: Table, stream: Stream, command: ReportWriteMetadata, known: Collection[BufferedFile]
) -> list[WriteStat]:
    """The files of a report that were not reported before.

    Raises ``InvalidWriteStat`` for one that differs from its earlier report, or that another task has reported.
    """
    checkpoint = stream.checkpoints[command.checkpoint]
    before = {
        (file.partition_path, file.file_name): file
        for file in known
        if file.requested_time == checkpoint.requested_time
    }
    tasks = streams.tasks_by_version(checkpoint) if before else {}
    new = []
    for index, stat in enumerate(command.write_stats):
        file = before.get((stat.partition_path, stat.file_name))
        if file is None:
            new.append(stat)
            continue
        task = tasks[file.version]
        if task != command.task and not command.bootstrap:
            why = (
                f"the task {task!r} of {streams.named(table, stream)} has reported the file "
                f"{stat.file_name!r}, and each file is written and reported by one task. Report files of the "
                "state of a restored job with bootstrap"
            )
            raise _invalid(index, stat, why, other_task=task)
        if file.counts != counts_of(stat):
            why = (
                f"the file {stat.file_name!r} was reported before to {streams.named(table, stream)} with "
                "another size or other counts; a file does not change once it is reported"
            )
            raise _invalid(index, stat, why)
    return new


def refuse_unpublished(
    table: Table,
    stream: Stream,
    instant: Instant,
    command: ReportWriteMetadata,
    published: Collection[DeletedFile],
) -> None:
    """Raise ``InvalidWriteStat`` for files of a restored task that a completed instant does not have."""
    names = {(file.partition_path, file.file_name) for file in published}
    for index, stat in enumerate(command.write_stats):
        if (stat.partition_path, stat.file_name) not in names:
            time = format_time(instant.requested_time, table.definition.tick)
            why = (
                f"the instant {time} of checkpoint {command.checkpoint} of {streams.named(table, stream)} has "
                f"completed without the file {stat.file_name!r}, so its rows would be lost; restore the job "
                "from an earlier checkpoint, so that it writes these rows again"
            )
            raise _invalid(index, stat, why, checkpoint=command.checkpoint, requested_time=time)


def are_kept(command: ReportWriteMetadata, facts: ReportFacts) -> bool:
    """Whether a restored task reports files, all of which their instant has published, and no restore undid."""
    files = {DeletedFile(stat.partition_path, stat.file_name) for stat in command.write_stats}
    return command.bootstrap and bool(files) and files == set(facts.published)


def refuse_unmarked(stats: Sequence[WriteStat], unmarked: Collection[DeletedFile]) -> None:
    """Raise ``InvalidWriteStat`` for a file without a marker, if completing would ask for it."""
    without = set(unmarked)
    for stat in stats:
        file = DeletedFile(stat.partition_path, stat.file_name)
        if file in without:
            raise reconciling.unmarked(file, stats)


def refuse_exclusive(
    table: Table,
    stream: Stream,
    number: int,
    stats: Sequence[WriteStat],
    known: Mapping[FileGroup, Sequence[BufferedFile]],
) -> None:
    """Raise for a file with which its instant, or one that has promised files, could not complete.

    ``InvalidWriteStat`` for the second base file of a file group in one instant, and ``MayConflict`` for files
    of a file group that another pending instant has reported.
    """
    checkpoint = stream.checkpoints[number]
    of_report = buffered(stats, _NO_VERSION, stream.name, number, checkpoint)
    for index, (stat, mine) in enumerate(zip(stats, of_report, strict=True)):
        for file in known.get(FileGroup(table.table_id, stat.partition_path, stat.file_id), ()):
            if file.requested_time == checkpoint.requested_time:
                _refuse_second_base(table, stream, index, stat, file)
            elif _exclude(mine, file):
                raise _may_conflict(table, stream, number, stat, file)


def _exclude(mine: BufferedFile, other: BufferedFile) -> bool:
    """Whether one of two pending instants could lose against the other, although its files are promised.

    The checkpoints of a stream complete in their order, those of two streams in any order.
    """
    is_same = mine.stream == other.stream
    may_be_second = not is_same or other.checkpoint < mine.checkpoint
    may_be_first = not is_same or mine.checkpoint < other.checkpoint
    return (may_be_second and not mine.is_blocking and _loses(mine.touch, other.touch)) or (
        may_be_first and not other.is_blocking and _loses(other.touch, mine.touch)
    )


def _loses(second: Touch, first: Touch) -> bool:
    """Whether the second of two writes of a file group loses, when both were pending together."""
    return COMPLETED[_change(second)][_change(first)] is not Rule.NEVER


def _change(touch: Touch) -> GroupChange:
    # Instants of streams are commits or deltacommits, which do the same to a file group.
    return GroupChange.APPEND if touch is Touch.LOG else GroupChange.WRITE


def _refuse_second_base(table: Table, stream: Stream, index: int, stat: WriteStat, file: BufferedFile) -> None:
    if file.touch is Touch.BASE and touch_of(stat) is Touch.BASE:
        raise _invalid(
            index,
            stat,
            f"{streams.named(table, stream)} has a base file of the file group {stat.file_id!r} for checkpoint "
            f"{file.checkpoint} already, {file.file_name!r}, and an instant has one of each group; write the "
            "rows into another file group, or all rows of a checkpoint into one file",
            other_file_name=file.file_name,
        )


def _may_conflict(
    table: Table, stream: Stream, number: int, stat: WriteStat, file: BufferedFile
) -> errors.MayConflict:
    time = format_time(file.requested_time, table.definition.tick)
    what = "a base file" if file.touch is Touch.BASE else "log files"
    return errors.MayConflict(
        f"the stream {file.stream!r} has reported {what} of the file group {stat.file_id!r} of {table.name!r} "
        f"for checkpoint {file.checkpoint}, whose instant {time} is pending. So {stat.file_name!r}, for "
        f"checkpoint {number} of the stream {stream.name!r}, could not complete beside it: write the rows into "
        "another file group, or into an instant that begins when that one has completed",
        table=table.name,
        requested_time=time,
        partition_path=stat.partition_path,
        file_id=stat.file_id,
        stream=file.stream,
        checkpoint=file.checkpoint,
    )


def _invalid(index: int, stat: WriteStat, why: str, **context: object) -> errors.InvalidWriteStat:
    return errors.InvalidWriteStat(
        f"write_stats[{index}]: {why}",
        index=index,
        file_name=stat.file_name,
        partition_path=stat.partition_path,
        **context,
    )
