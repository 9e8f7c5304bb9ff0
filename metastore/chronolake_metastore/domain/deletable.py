"""Which files may be deleted, decided for each file (docs/architecture.md#markers-and-deletion).

If it is not certain, it is refused: a file that stays can be deleted later, a deleted file cannot come back.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import msgspec

from chronolake_metastore.domain.instants import Instant
from chronolake_model.file_names import PATH_BYTES_MAX, check_partition_path, parse_file_name
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, Refusal, State

_PENDING: Final = frozenset({State.REQUESTED, State.INFLIGHT})


class FileFacts(msgspec.Struct, frozen=True):
    """The facts about a data file of a table.

    ``state`` is that of the instant in its name, if there is one. ``is_published`` says whether
    any instant ever published it, ``is_live`` whether a latest slice has it, ``is_served`` whether one had it
    at a time that the table is served as of, ``is_held`` whether a savepoint or a reader needs it,
    ``is_planned`` whether there is a plan for its file group, ``is_staged`` whether it waits to be published.
    """

    requested_time: Micros
    state: State | None
    is_published: bool = False
    is_live: bool = False
    is_served: bool = False
    is_held: bool = False
    is_planned: bool = False
    is_staged: bool = False
    cleaned_by: Micros | None = None
    """The clean whose plan names it."""
    is_known_to_dropped: bool = False
    """Whether a dropped table whose folder overlaps had the instant in its name."""
    is_needed_by_dropped: bool = False
    """Whether such a table has published or staged it, or has completed the instant in its name."""


class ForInstant(msgspec.Struct, frozen=True):
    """The question whether ``writer`` may delete files for an instant: its plan's, or those of its attempts."""

    instant: Instant
    writer: str | None = None


class AsOrphans(msgspec.Struct, frozen=True):
    """The question whether files may be deleted that no instant names, each by its own name.

    ``last_time`` is the last time that the table's clock has issued: an instant with a later time may still
    begin. With ``unknown_instants``, files of instants that the table never had may be deleted.
    """

    last_time: Micros
    unknown_instants: bool = False


Question: TypeAlias = ForInstant | AsOrphans
"""Each kind of deletion of data files asks one of these."""


def requested_time_of(file: DeletedFile) -> Micros | None:
    """The instant in the name of a file; None if it is not the name of a data file."""
    try:
        check_partition_path(file.partition_path)
        name = parse_file_name(file.file_name)
        time = parse_time(name.requested_time)
    except ValueError:
        return None
    return time if len(file.path.encode()) <= PATH_BYTES_MAX else None


def refusal(question: Question, facts: FileFacts) -> Refusal | None:
    """Why a data file may not be deleted; None if it may. Every kind of deletion asks this."""
    match question:
        case ForInstant():
            reason = _for_instant(question.instant, question.writer, facts)
            is_of_dropped = facts.is_needed_by_dropped
        case AsOrphans():
            reason = _of_orphan(question, facts)
            is_of_dropped = facts.is_needed_by_dropped or facts.is_known_to_dropped
        case _:
            assert_never(question)
    # An unknown instant may be that of a dropped table. Then the dropped table is the better reason. A file
    # that this table has published too was adopted with its history: the rules of this table apply to it.
    if reason in (None, Refusal.UNKNOWN_INSTANT) and is_of_dropped and not facts.is_published:
        return Refusal.DROPPED_TABLE
    return reason


def _for_instant(instant: Instant, writer: str | None, facts: FileFacts) -> Refusal | None:
    if instant.state in _PENDING and (instant.lease_expires_at is None or writer != instant.writer):
        return Refusal.PENDING
    match instant.action:
        case Action.CLEAN:
            return _by_clean(instant, facts)
        case Action.ROLLBACK:
            assert instant.target is not None
            return _of_instant(instant.target, facts)
        case _:
            return _of_instant(instant.requested_time, facts)


def _of_orphan(question: AsOrphans, facts: FileFacts) -> Refusal | None:
    if facts.state is None:
        if facts.is_published:
            return Refusal.PUBLISHED
        is_past = facts.requested_time <= question.last_time
        return None if question.unknown_instants and is_past else Refusal.UNKNOWN_INSTANT
    if facts.state in _PENDING:
        return Refusal.STAGED if facts.is_staged else Refusal.PENDING
    return _of_instant(facts.requested_time, facts)


def _by_clean(clean: Instant, facts: FileFacts) -> Refusal | None:
    if clean.is_planned_clean:
        if facts.cleaned_by != clean.requested_time:
            return Refusal.OTHER_INSTANT
    elif not facts.is_published:
        return Refusal.OTHER_INSTANT
    elif facts.is_planned:
        return Refusal.PLANNED
    if facts.is_live:
        return Refusal.LIVE
    if facts.is_held:
        return Refusal.HELD
    return Refusal.SERVED if facts.is_served else None


def _of_instant(requested_time: Micros, facts: FileFacts) -> Refusal | None:
    if facts.requested_time != requested_time:
        return Refusal.OTHER_INSTANT
    if facts.is_live:
        return Refusal.LIVE
    if facts.is_published:
        return Refusal.PUBLISHED
    return Refusal.STAGED if facts.is_staged else None
