"""Names and properties of tables: those of the log, compared with the answers that clients got.

A table has a definition from one change to the next. The moment of a change is not known, only that it lies
between the sending of its command and the first moment when any client could see it.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.history.findings import Fault, Finding
from tests.history.records import Answer, Command, Event, History, Log, Resolution

TIME_DIGITS = 20
NOT_FOUND = 404
_NEVER = 2**63


@dataclass(frozen=True)
class Definition:
    """The name and the properties of a table from this version of its log on.

    ``time`` is that of the event, in ``TIME_DIGITS``. The definition was not there before the moment ``since``;
    it was there at the moment ``known``.
    """

    table_id: str
    version: int
    time: str
    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    since: int = -1
    known: int = _NEVER


Definitions = dict[str, list[Definition]]
"""The definitions of each table, by its id, in their order."""


def of(log: Log) -> Definitions:
    """The definitions that the tables of the log have had."""
    definitions: Definitions = {}
    for event in log:
        if event.change is not None:
            of_table = definitions.setdefault(event.table_id, [])
            of_table.append(_definition(of_table[-1] if of_table else None, event))
    return definitions


def _definition(before: Definition | None, event: Event) -> Definition:
    change = event.change
    assert change is not None, "the event changes a definition"
    properties = {} if before is None else before.properties
    name = change.name or ("" if before is None else before.name)
    kept = {key: text for key, text in properties.items() if key not in change.unset}
    time = event.time.ljust(TIME_DIGITS, "0")
    return Definition(event.table_id, event.version, time, name, kept | change.set)


def at(definitions: Definitions, table_id: str, version: int) -> Definition | None:
    """The definition of a table after this number of events; None if there was no such table."""
    of_table = definitions.get(table_id, [])
    place = bisect_right(of_table, version, key=lambda definition: definition.version)
    return of_table[place - 1] if place else None


def is_table_not_found(answer: Answer) -> bool:
    """Whether the name of a command was not that of its table."""
    return answer.status == NOT_FOUND and json.loads(answer.body).get("code") == "table-not-found"


def check(history: History, effects: Mapping[str, list[Event]], log: Log) -> Iterator[Finding]:
    """Whether each name was that of one table at a time, and was resolved so."""
    yield from _tenures(of(log))
    definitions = _dated(history, effects, of(log))
    holders: dict[str, list[str]] = {}
    for table_id, of_table in definitions.items():
        for name in {definition.name for definition in of_table}:
            holders.setdefault(name, []).append(table_id)
    for resolution in [*history.resolutions, *_of_refusals(history.commands)]:
        if not _is_possible(resolution, definitions, holders):
            yield Finding(Fault.WRONG_NAME, resolution.name, f"{resolution}")


def _tenures(definitions: Definitions) -> Iterator[Finding]:
    """Each table that takes a name does so later than the table that had it before gave it up."""
    tenures: dict[str, list[tuple[str, str | None, str]]] = {}
    for table_id, of_table in definitions.items():
        named = [of_table[0]] + [after for before, after in pairwise(of_table) if before.name != after.name]
        ends = [*(definition.time for definition in named[1:]), None]
        for definition, end in zip(named, ends, strict=True):
            tenures.setdefault(definition.name, []).append((definition.time, end, table_id))
    for name, of_name in tenures.items():
        for (_, end, earlier), (start, _, later) in pairwise(sorted(of_name, key=lambda tenure: tenure[0])):
            if end is None or start <= end:
                yield Finding(Fault.TWO_HAD_ONE_NAME, name, f"{later} took it at {start}, {earlier} had it")


def _dated(history: History, effects: Mapping[str, list[Event]], definitions: Definitions) -> Definitions:
    """The definitions with the moments from which they may have been, and must have been there."""
    moments: dict[str, list[tuple[int, int, int]]] = {}
    for command in history.commands:
        returned = _NEVER if command.returned is None else command.returned
        for event in effects[command.key]:
            moments.setdefault(event.table_id, []).append((event.version, command.called, returned))
    return {
        table_id: _dated_of_table(of_table, sorted(moments.get(table_id, ())))
        for table_id, of_table in definitions.items()
    }


def _dated_of_table(of_table: list[Definition], moments: Sequence[tuple[int, int, int]]) -> list[Definition]:
    """``moments`` are version, call and return of commands; each bounds all versions up to its own."""
    dated: list[Definition] = []
    latest_call, place = -1, 0
    for definition in of_table:
        while place < len(moments) and moments[place][0] <= definition.version:
            latest_call = max(latest_call, moments[place][1])
            place += 1
        dated.append(replace(definition, since=latest_call))
    known, place = _NEVER, len(moments)
    for number in reversed(range(len(dated))):
        while place and moments[place - 1][0] >= dated[number].version:
            place -= 1
            known = min(known, moments[place][2])
        dated[number] = replace(dated[number], known=known)
    # Tables are created before the clients start.
    return [replace(dated[0], since=-1, known=-1), *dated[1:]]


def _of_refusals(commands: Iterable[Command]) -> Iterator[Resolution]:
    for command in commands:
        returned = command.returned
        if returned is not None and is_table_not_found(command.answers[0]):
            yield Resolution(command.table, command.table_id, False, command.called, returned)


def _is_possible(
    resolution: Resolution, definitions: Definitions, holders: Mapping[str, Sequence[str]]
) -> bool:
    if resolution.is_found:
        of_table = definitions.get(resolution.table_id or "", [])
        return any(_may_show(resolution, definition) for definition in _around(resolution, of_table))
    tables = holders.get(resolution.name, ()) if resolution.table_id is None else (resolution.table_id,)
    return not any(
        all(
            definition.name == resolution.name for definition in _around(resolution, definitions.get(table, []))
        )
        for table in tables
    )


def _may_show(resolution: Resolution, definition: Definition) -> bool:
    shows_properties = resolution.properties in (None, definition.properties)
    return definition.name == resolution.name and shows_properties


def _around(resolution: Resolution, of_table: Sequence[Definition]) -> list[Definition]:
    """The definitions that a table may have had at some moment between call and return."""
    # A definition may be there until the next one is known. Both moments increase with the versions.
    if not of_table:
        return []
    first = bisect_left(of_table, resolution.called, lo=1, key=lambda definition: definition.known) - 1
    end = bisect_right(of_table, resolution.returned, key=lambda definition: definition.since)
    return list(of_table[first:end])
