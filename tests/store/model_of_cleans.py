"""Cleans in plain Python, beside ``model.py``: which files no reader needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronolake_model.cleans import CleanPolicy
from chronolake_model.vocabulary import Touch

if TYPE_CHECKING:
    from tests.store.model import Timeline
    from tests.store.model_of_instants import Completed, Group

File = tuple[int, Touch, "Group"]
"""A file by the instant that wrote it, its kind and its group."""
_HOUR = 3_600_000_000


@dataclass(frozen=True)
class ReaderLease:
    """As of when a reader reads, and until when it holds that; one that follows holds all later times too."""

    as_of: int
    expires: int
    follows: bool = False


def deletable(timeline: Timeline, policy: CleanPolicy, now: int) -> dict[File, int]:
    """The files that a clean may delete now, each with when it left the slices."""
    until = _until(timeline, policy, now)
    if until is None:
        return {}
    until = min([until, *timeline.pending_writes(), *followed(timeline, now)])
    planned = {group for group, _ in timeline.planned()}
    kept = set().union(*(files_seen(timeline, at) for at in held(timeline, now)))
    return {
        file: left
        for file, left in _left(timeline).items()
        if left <= until
        and file not in kept
        and file not in timeline.cleaned
        and file[2] not in planned
        and (policy.retain_versions is None or _is_old(timeline, file, policy.retain_versions))
    }


def held(timeline: Timeline, now: int) -> list[int]:
    """The completion times that savepoints and readers hold."""
    pinned = {instant.target for instant in timeline.instants.values() if instant.is_savepoint}
    saved = [
        instant.completed
        for instant in timeline.instants.values()
        if instant.time in pinned and instant.completed
    ]
    return [*saved, *(lease.as_of for lease in timeline.readers.values() if lease.expires > now)]


def followed(timeline: Timeline, now: int) -> list[int]:
    """The times that readers hold with all later ones."""
    return [lease.as_of for lease in timeline.readers.values() if lease.follows and lease.expires > now]


def files_seen(timeline: Timeline, at: int | None) -> set[File]:
    """The files that a reader sees as of a time, or now."""
    return set(_files(timeline.seen(at).items()))


def needed(timeline: Timeline) -> Iterator[File]:
    """The files that must be in storage: they are served or held, or a pending writer may read them."""
    yield from files_seen(timeline, None)
    since = min(followed(timeline, timeline.now), default=None)
    for at in timeline.completions():
        if timeline.serves(at) or (since is not None and at >= since):
            yield from files_seen(timeline, at)
    for time in timeline.pending_writes():
        yield from files_seen(timeline, time)
    for group, time in timeline.planned():
        yield from (file for file in files_seen(timeline, time) if file[2] == group)


def _files(slices: Iterable[tuple[Group, tuple[int | None, tuple[int, ...]]]]) -> Iterator[File]:
    for group, (base, logs) in slices:
        if base is not None:
            yield base, Touch.BASE, group
        yield from ((log, Touch.LOG, group) for log in logs)


def _until(timeline: Timeline, policy: CleanPolicy, now: int) -> int | None:
    """The time at which a file may have left at the latest."""
    times = [] if timeline.cleaned_before is None else [timeline.cleaned_before]
    if policy.retain_versions is not None:
        times.append(10**18)
    elif policy.retain_hours is not None:
        times.append(now - policy.retain_hours * _HOUR)
    else:
        writes = [instant.completed for instant in timeline.completed() if instant.instant.is_completed_write]
        assert policy.retain_commits is not None
        times += writes[-policy.retain_commits :][:1] if len(writes) >= policy.retain_commits else []
    return max(times, default=None)


def _left(timeline: Timeline) -> dict[File, int]:
    """The files that are not seen any more, and since when.

    The file of a service in a file group that was replaced meanwhile is never seen.
    """
    changes = timeline.changes()
    last: dict[File, int] = {}
    for place, at in enumerate(changes):
        for file in files_seen(timeline, at):
            last[file] = place
    live = files_seen(timeline, None)
    never: dict[File, int] = {
        (instant.time, how, group): completed
        for instant in timeline.instants.values()
        if (completed := instant.completed or instant.undone_completion)
        for how, group in instant.touched
        if how is not Touch.REPLACED and timeline.replaced_by(group, completed)
    }
    return never | {file: changes[place + 1] for file, place in last.items() if file not in live}


def _is_old(timeline: Timeline, file: File, versions: int) -> bool:
    """Whether its slice has ``versions`` newer ones in its group, or its group is not served any more."""
    time, how, group = file
    written: list[Completed] = [instant for instant in timeline.completed() if instant.touches(how, group)]
    mine = next((instant for instant in written if instant.time == time), None)
    if mine is None or group in timeline.replaced():
        return True
    barrier = mine.time if how is Touch.BASE else mine.completed
    newer = [
        instant
        for instant in timeline.completed()
        if instant.touches(Touch.BASE, group) and instant.time > barrier
    ]
    return len(newer) >= versions
