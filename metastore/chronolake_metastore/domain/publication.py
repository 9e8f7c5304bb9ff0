"""Publication for Hudi's readers: which tables they can read, and when publication waits.

A state that they read wrongly without an error is never published (docs/concepts/hudi.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from chronolake_hudi import java_properties, publishable
from chronolake_hudi.properties import HISTORY_PATH_KEY
from chronolake_hudi.publishable import Publishable
from chronolake_metastore import errors
from chronolake_metastore.domain.active_window import Border, Window
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import HudiFilesFound
from chronolake_model import column_types, nested_fields
from chronolake_model.column_types import DataType
from chronolake_model.columns import NestedField, SchemaField
from chronolake_model.publication import (
    PUBLISH_PROPERTY,
    PUBLISHER_PROPERTY,
    CheckPosition,
    Publisher,
)
from chronolake_model.times import MICROS_PER_SECOND, Micros, Tick, format_time
from chronolake_model.vocabulary import ADOPTED_PROPERTY, ADOPTING_PROPERTY

FOUND_SECONDS_MIN: Final = 3_600
"""The time between two events of a table about foreign files."""
UNREADABLE_FILES_MAX: Final = 1_000
"""The largest count of files that Hudi's readers read wrongly; more are not counted."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a table is published, and by whom: one row beside the log."""

    published_version: int
    published_completion: Micros
    published_at: Micros | None
    hidden_until: int | None
    epoch: int
    publisher: str | None
    lease_expires_at: Micros | None
    paused_version: int | None
    paused_reason: str | None
    paused_since: Micros | None
    failure: str | None
    foreign_files: list[str]
    checked_at: Micros | None
    check_position: CheckPosition = CheckPosition()
    hidden_at: Micros | None = None
    """Since when the table is hidden from Hudi's readers, because publication is off."""
    border: Border = Border()
    """Where the active timeline begins."""

    @property
    def may_be_seen(self) -> bool:
        """Whether Hudi's readers may find the table: a publisher has begun, and none has hidden it since."""
        return self.hidden_at is None and self.was_begun

    @property
    def was_begun(self) -> bool:
        """Whether a publisher has ever begun."""
        return self.published_version > 0 or self.epoch > 0

    def is_leased(self, now: Micros) -> bool:
        """Whether a publisher has a lease at ``now``, by the steady clock."""
        return self.lease_expires_at is not None and now < self.lease_expires_at


class RecordHudiFiles(Command, frozen=True):
    """Record the files in ``.hoodie`` that no publisher wrote; ``total`` is their number."""

    table: str
    paths: list[str]
    total: int


class FoundFiles(msgspec.Struct, frozen=True):
    """The foreign files of the last event that recorded some, and its time."""

    time: Micros
    paths: list[str]
    total: int


class UnreadableFiles(msgspec.Struct, frozen=True):
    """Live files that Hudi's readers read wrongly: the number up to ``UNREADABLE_FILES_MAX``, one path."""

    number: int
    path: str


class Gate(msgspec.Struct, frozen=True):
    """Progress of publication that the execution of a compaction waits for, once a publisher has begun."""

    published_version: int
    lease_expires_at: Micros | None
    is_paused: bool


def refuse_unpublished(table_name: str, table: Publishable, gate: Gate, version: int, now: Micros) -> None:
    """Raise ``NotPublishedYet`` if the plan of a compaction, of this version, is not published.

    Only where Hudi's readers may see the table: it was published, or a publisher is about to. While publication
    is off or paused they see no log file that is later than the plan.
    """
    if gate.is_paused or is_off(table) or version <= gate.published_version:
        return
    if gate.published_version > 0 or (gate.lease_expires_at is not None and now < gate.lease_expires_at):
        raise errors.NotPublishedYet(table_name, version, gate.published_version)


def record_files(last: FoundFiles | None, command: RecordHudiFiles, now: Micros) -> HudiFilesFound | None:
    """The event of foreign files; None when the last one says the same, or is less than an hour old.

    So publishers cannot fill the log by their reports. If the last time is ahead of ``now``, the wall clock was
    set back, and its age is not known.
    """
    event = HudiFilesFound(paths=command.paths, total=max(command.total, len(command.paths)))
    if last is None:
        return event if event.total else None
    is_known = (last.paths, last.total) == (event.paths, event.total)
    return None if is_known or 0 <= now - last.time < FOUND_SECONDS_MIN * MICROS_PER_SECOND else event


def is_off(table: Publishable) -> bool:
    """Whether the table is not to be published."""
    text = table.properties.get(PUBLISH_PROPERTY)
    return text == "false" or (text is None and table.tick is Tick.MICROSECOND)


def is_being_adopted(table: Publishable) -> bool:
    """Whether the folder may still be Hudi's: until the adoption is finished, no publisher changes it."""
    return ADOPTING_PROPERTY in table.properties


def may_archive(table: Publishable, position: Position) -> bool:
    """Whether instants may leave the published active timeline.

    Hudi's readers must see the table, up to its end. An adopted one must have its history in the usual folder.
    """
    is_shown = position.hidden_until is None and position.hidden_at is None and position.paused_version is None
    stated = java_properties.decode(table.properties.get(ADOPTED_PROPERTY, "").encode("latin-1"), "")
    has_folder = stated.get(HISTORY_PATH_KEY) in (None, "", "history")
    return is_shown and has_folder and not is_off(table)


def is_history_due(table: Publishable, position: Position, published_version: int) -> bool:
    """Whether a publisher is to look at the length of the active timeline."""
    is_due = position.border.is_due(Window.of(table.properties), published_version)
    return is_due and may_archive(table, position)


def is_demanded(table: Publishable) -> bool:
    """Whether commands that would make the table unreadable for Hudi are refused."""
    return table.properties.get(PUBLISH_PROPERTY) == "true"


def publisher_of(table: Publishable) -> Publisher:
    """The publisher of the table, by its property."""
    return Publisher(table.properties.get(PUBLISHER_PROPERTY, Publisher.SERVER))


def refuse_unreadable(table: Publishable) -> None:
    """Raise ``InvalidTable`` when the table is to be published, by its property, and Hudi cannot read it."""
    reason = (publishable.obstacle(table) or publishable.log_obstacle(table)) if is_demanded(table) else None
    if reason is not None:
        raise errors.InvalidTable(f"{PUBLISH_PROPERTY} is true, but {reason}", property=PUBLISH_PROPERTY)


def unreadable_versions(
    present: Sequence[SchemaField], versions: Mapping[int, Sequence[SchemaField]]
) -> dict[int, str]:
    """The schema versions whose files Hudi reads wrongly under the ``present`` schema, each with a column.

    Hudi finds a column of a file by its name. A renamed column is null for it, and a column that was dropped
    shows its values again under a new column of the same name. Where no name fits exactly, Hudi takes the one
    that differs in case only, but not everywhere: hudi-rs does not within structs, nor Spark in Avro logs.
    """
    wanted = _ids_by_path(present)
    unreadable: dict[int, str] = {}
    for version, fields in versions.items():
        stored = _ids_by_path(fields)
        paths = {field_id: path for path, field_id in stored.items()}
        in_any_case = {_folded(path): field_id for path, field_id in stored.items()}
        for path, field_id in wanted.items():
            is_renamed = paths.get(field_id, path) != path
            if is_renamed or in_any_case.get(_folded(path), field_id) != field_id:
                unreadable[version] = ".".join(path)
                break
    return unreadable


def _folded(path: tuple[str, ...]) -> tuple[str, ...]:
    # No two columns of a schema differ in case only.
    return tuple(name.lower() for name in path)


def _ids_by_path(fields: Sequence[SchemaField]) -> dict[tuple[str, ...], int]:
    """The id of each column, and of each field within one, by the names that lead to it."""
    return {
        path: field_id
        for field in fields
        for path, field_id in _paths(
            (field.name,), field.field_id, column_types.parse(field.type), field.nested
        )
    }


def _paths(
    path: tuple[str, ...], field_id: int, data_type: DataType, nested: Sequence[NestedField]
) -> Iterator[tuple[tuple[str, ...], int]]:
    yield path, field_id
    # Tables from before nested ids have none.
    for part, field in zip(nested_fields.parts(data_type), nested, strict=False):
        yield from _paths((*path, part.name), field.field_id, part.type, field.nested)


def pause_reason(column: str, files: UnreadableFiles | None = None) -> str:
    """Why publication waits when live files have another column under the name, or this one under another."""
    return (
        f"the column {column[:100]!r} was renamed, or has the name of a former column, and files from before "
        f"are still live{_named(files)}: Hudi's readers would show wrong values; rewrite these files (an "
        "upsert of their records, or an overwrite), or set hudi.publish to false"
    )


def _named(files: UnreadableFiles | None) -> str:
    if files is None:
        return ""
    at_least = "at least " if files.number == UNREADABLE_FILES_MAX else ""
    return f" ({at_least}{files.number:,}, such as {files.path[:300]})"


def reason_of_shared_plan(group: str, undone: Micros) -> str:
    """Why publication waits at the plan of a compaction while that of an undone one has the same file group."""
    return (
        f"a compaction is planned for the file group {group[:200]!r}, and files of the undone compaction "
        f"{format_time(undone)} are not deleted: Hudi's Spark reader fails when a file group has two plans; "
        "complete the planned compaction, or finish the rollback of the undone one; after a restore, clean "
        "before you plan a compaction"
    )


def reason_of_hidden_log(group: str, hidden_by: Micros) -> str:
    """Why publication waits when a base file of no completed instant is before a log file in its group."""
    return (
        f"the file group {group[:200]!r} has a base file of the instant {format_time(hidden_by)}, which is "
        "pending or undone: Hudi's Spark reader would leave out later log files of the group; complete or roll "
        "back a pending instant and finish its rollback; delete the files of a restored one with a clean"
    )
