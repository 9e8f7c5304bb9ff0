"""Small histories, and logs that fit them, for the tests of the checker; times are small numbers."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.history.checker import check
from tests.history.findings import Fault
from tests.history.records import Answer, Attempt, Command, Event, Group, History, Kind, Log, Read, Stretch

TABLE = "shop.orders"
GROUP: Group = ("", "group 1")
OTHER_GROUP: Group = ("", "group 2")
ONE = frozenset({GROUP})


def faults(history: History, log: Log) -> set[Fault]:
    """What the checker finds."""
    return {finding.fault for finding in check(history, log)}


def time(number: int) -> str:
    """An instant time; those of larger numbers are later."""
    return f"{number:017}"


def attempt(called: int, returned: int | None = None, status: int = 200, **body: str) -> Attempt:
    """One sending of a command; without ``returned`` its answer was lost."""
    if returned is None:
        return Attempt(0, called)
    return Attempt(0, called, returned, Answer(status, json.dumps(body).encode()))


def begin(key: str, requested: int, called: int, returned: int) -> Command:
    """A begin that was answered with this requested time."""
    answered = attempt(called, returned, 201, requested_time=time(requested))
    return Command(key, TABLE, Kind.BEGIN, attempts=[answered])


def complete(
    key: str, requested: int, completed: int, called: int, returned: int, groups: frozenset[Group] = ONE
) -> Command:
    """A complete that was answered with this completion time."""
    answered = attempt(called, returned, requested_time=time(requested), completion_time=time(completed))
    return Command(key, TABLE, Kind.COMPLETE, time(requested), groups, [answered])


def command(key: str, kind: Kind, requested: int, *attempts: Attempt) -> Command:
    """A command on an instant, sent so often."""
    return Command(key, TABLE, kind, time(requested), attempts=list(attempts))


def log(*events: Event) -> Log:
    """The log of one table, whose versions count from 1."""
    return [replace(event, version=version) for version, event in enumerate(events, 1)]


def requested(key: str, at: int, action: str = "commit") -> Event:
    """An instant was requested at this time."""
    return _event("InstantRequested", key, at, at, action=action)


def completed(key: str, instant: int, at: int, groups: frozenset[Group] = ONE) -> Event:
    """An instant completed at this time."""
    return _event("InstantCompleted", key, instant, at, groups=groups)


def rolled_back(key: str, instant: int, at: int) -> Event:
    """An instant was rolled back at this time."""
    return _event("InstantRolledBack", key, instant, at)


def renewed(key: str, instant: int, at: int) -> Event:
    """A lease was renewed at this time."""
    return _event("LeaseRenewed", key, instant, at)


def _event(
    kind: str,
    key: str,
    instant: int,
    at: int,
    *,
    action: str | None = None,
    groups: frozenset[Group] = frozenset(),
) -> Event:
    return Event(TABLE, "table 1", 0, kind, time(at), key, time(instant), action, groups, hash=f"{key} {at}")


TWO_INSTANTS = log(
    requested("a", 1),
    completed("b", 1, 2),
    requested("c", 3),
    completed("d", 3, 4, frozenset({OTHER_GROUP})),
)
"""The first completes before the second is requested; each writes a file group of its own."""


def history(*commands: Command, reads: list[Read] | None = None, stretch: Stretch | None = None) -> History:
    """What clients wrote down."""
    return History(list(commands), reads or [], [stretch] if stretch else [])


def read(
    upto: int,
    *instants: tuple[int, int],
    after: int = 0,
    called: int = 100,
    returned: int = 110,
    of_the_past: bool = False,
) -> Read:
    """A read of the timeline that showed instants of these times."""
    shown = tuple((time(begun), time(ended)) for begun, ended in instants)
    return Read("reader", TABLE, called, returned, time(upto), time(after), shown, of_the_past=of_the_past)


def snapshot(as_of: int, *files: tuple[Group, int]) -> Read:
    """A snapshot that showed the base files of these groups, by the instants that wrote them."""
    shown = frozenset((*group, time(instant)) for group, instant in files)
    return Read("reader", TABLE, 100, 110, time(as_of), files=shown)


def stretch(*versions: int, after: int | None = None, until: int | None = None) -> Stretch:
    """What a follower was given of ``TWO_INSTANTS``, by versions."""
    places = [event.place for event in TWO_INSTANTS]
    return Stretch(
        "follower",
        TABLE,
        None if after is None else places[after - 1],
        None if until is None else places[until - 1],
        [places[version - 1] for version in versions],
    )
