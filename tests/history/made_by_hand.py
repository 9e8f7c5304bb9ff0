"""Small histories, and logs that fit them, for the tests of the checker; times are small numbers."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.history.checker import check
from tests.history.findings import Fault
from tests.history.records import (
    Answer,
    Attempt,
    Change,
    Command,
    Event,
    Group,
    History,
    Kind,
    Log,
    Read,
    Stretch,
)

TABLE = "shop.orders"
TABLE_ID = "table 1"
OTHER_TABLE_ID = "table 2"
GROUP: Group = ("", "group 1")
OTHER_GROUP: Group = ("", "group 2")
ONE = frozenset({GROUP})


def faults(history: History, log: Log) -> set[Fault]:
    """The faults that the checker reports."""
    return {finding.fault for finding in check(history, log)}


def time(number: int) -> str:
    """An instant time; those of larger numbers are later."""
    return f"{number:017}"


def attempt(called: int, returned: int | None = None, status: int = 200, **body: object) -> Attempt:
    """One sending of a command; without ``returned`` its answer was lost."""
    if returned is None:
        return Attempt(0, called)
    return Attempt(0, called, returned, Answer(status, json.dumps(body).encode()))


def begin(key: str, requested: int, called: int, returned: int) -> Command:
    """A begin that was answered with this requested time."""
    answered = attempt(called, returned, 201, requested_time=time(requested))
    return Command(key, TABLE, Kind.BEGIN, attempts=[answered], table_id=TABLE_ID)


def complete(
    key: str, requested: int, completed: int, called: int, returned: int, groups: frozenset[Group] = ONE
) -> Command:
    """A complete that was answered with this completion time."""
    answered = attempt(called, returned, requested_time=time(requested), completion_time=time(completed))
    return Command(key, TABLE, Kind.COMPLETE, time(requested), groups, [answered], TABLE_ID)


def command(key: str, kind: Kind, requested: int, *attempts: Attempt) -> Command:
    """A command on an instant, sent so often."""
    return Command(key, TABLE, kind, time(requested), attempts=list(attempts), table_id=TABLE_ID)


def alter(key: str, name: str, called: int, returned: int, new_name: str, **properties: str) -> Command:
    """A change of the table that was answered with this new name and these properties."""
    answered = attempt(called, returned, table_id=TABLE_ID, name=new_name, properties=properties)
    return Command(key, name, Kind.ALTER, attempts=[answered], table_id=TABLE_ID)


def log(*events: Event) -> Log:
    """The log of one table, whose versions count from 1."""
    return [replace(event, version=version) for version, event in enumerate(events, 1)]


def created(at: int, name: str = TABLE) -> Event:
    """The table was created at this time."""
    return _altered("TableCreated", "create", at, Change(name))


def altered(key: str, at: int, name: str | None = None, **properties: str) -> Event:
    """The table was renamed at this time, or its properties were set."""
    return _altered("TableAltered", key, at, Change(name, properties))


def of_other_table(events: Log) -> Log:
    """The same log, of another table."""
    return [replace(event, table_id=OTHER_TABLE_ID) for event in events]


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


def _altered(kind: str, key: str, at: int, change: Change) -> Event:
    return replace(_event(kind, key, 0, at), instant=None, change=change)


def _event(
    kind: str,
    key: str,
    instant: int,
    at: int,
    *,
    action: str | None = None,
    groups: frozenset[Group] = frozenset(),
) -> Event:
    return Event(TABLE_ID, 0, kind, time(at), key, time(instant), action, groups, hash=f"{key} {at}")


TWO_INSTANTS = log(
    requested("a", 1),
    completed("b", 1, 2),
    requested("c", 3),
    completed("d", 3, 4, frozenset({OTHER_GROUP})),
)
"""The first completes before the second is requested; each writes a file group of its own."""


def history(*commands: Command, reads: list[Read] | None = None, stretch: Stretch | None = None) -> History:
    """The records of clients."""
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
    return Read("reader", TABLE_ID, called, returned, time(upto), time(after), shown, of_the_past=of_the_past)


def snapshot(as_of: int, *files: tuple[Group, int]) -> Read:
    """A snapshot that showed the base files of these groups, by the instants that wrote them."""
    shown = frozenset((*group, time(instant)) for group, instant in files)
    return Read("reader", TABLE_ID, 100, 110, time(as_of), files=shown)


def stretch(*versions: int, after: int | None = None, until: int | None = None) -> Stretch:
    """The events that a follower got of ``TWO_INSTANTS``, by version."""
    places = [event.place for event in TWO_INSTANTS]
    return Stretch(
        "follower",
        TABLE_ID,
        None if after is None else places[after - 1],
        None if until is None else places[until - 1],
        [places[version - 1] for version in versions],
    )
