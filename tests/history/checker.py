"""The history checker: compares the records of clients with the log, and reports the broken promises.

Pure: no I/O, no clock. It assumes nothing about the server's implementation: a command is executed between its
first request and its first answer, and an acknowledged command takes effect exactly once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, assert_never

from tests.history import feed, names, timelines
from tests.history.findings import Fault, Finding
from tests.history.records import Answer, Command, Event, History, Kind, Log, Read, by_table
from tests.history.timelines import Timeline

EFFECTS = {
    Kind.BEGIN: "InstantRequested",
    Kind.INFLIGHT: "InstantInflight",
    Kind.HEARTBEAT: "LeaseRenewed",
    Kind.COMPLETE: "InstantCompleted",
    Kind.ROLL_BACK: "InstantRolledBack",
    Kind.ALTER: "TableAltered",
}
"""The event that a command appends. It may append others beside it: of an instant of its own, for one."""


def check(history: History, log: Log) -> list[Finding]:
    """Every fault of ``history``, given the log after all clients have stopped."""
    tables = timelines.of(log)
    effects = _effects(history, log)
    return [
        *(Finding(Fault.SERVER_FAILED, "", failure) for failure in history.failures),
        *(_of(Fault.OUTCOME_FORGOTTEN, command, "not found") for command in history.forgotten),
        *_commands(history, effects, tables, names.of(log)),
        *_wrong_tables(history, effects, names.of(log)),
        *_doubled(log, {command.key for command in history.commands}),
        *_clocks(log),
        *_real_time(history, effects),
        *names.check(history, effects, log),
        *_instants(tables),
        *_reads(history, effects, tables),
        *feed.check(history.stretches, log),
    ]


def _effects(history: History, log: Log) -> dict[str, list[Event]]:
    """The events that each command of the clients appended, by key: one or none, if all is well."""
    logged: dict[str, list[Event]] = {}
    for event in log:
        logged.setdefault(event.request_id, []).append(event)
    return {
        command.key: [event for event in logged.get(command.key, ()) if _is_effect(command, event)]
        for command in history.commands
    }


def _is_effect(command: Command, event: Event) -> bool:
    return event.type == EFFECTS[command.kind] and command.instant in (None, event.instant)


def _commands(
    history: History,
    effects: dict[str, list[Event]],
    tables: dict[str, Timeline],
    definitions: names.Definitions,
) -> Iterator[Finding]:
    for command in history.commands:
        events = effects[command.key]
        answers = list(dict.fromkeys(command.answers))
        if len(answers) > 1:
            yield _of(Fault.ANSWERS_DIFFER, command, " and ".join(str(answer) for answer in answers))
        if len(events) > 1:
            yield _of(Fault.DOUBLED, command, f"versions {', '.join(str(event.version) for event in events)}")
        if answers:
            table_id = _table_id(command, effects)
            was_rolled_back = _was_rolled_back(command, tables.get(table_id or "", Timeline()))
            yield from _check_answered(command, answers[0], events, definitions, was_rolled_back)


def _table_id(command: Command, effects: dict[str, list[Event]]) -> str | None:
    """The table of a command: that of its instant, or the one that the client required; None for any."""
    begun = effects.get(command.begun_by or "", ())
    return begun[0].table_id if begun else command.table_id


def _check_answered(
    command: Command,
    answer: Answer,
    events: list[Event],
    definitions: names.Definitions,
    was_rolled_back: bool,
) -> Iterator[Finding]:
    if not answer.is_success:
        if events:
            yield _of(Fault.REFUSED_YET_DONE, command, f"{answer}, and version {events[0].version}")
    elif events:
        yield from _compare(command, answer, events, definitions)
    elif not was_rolled_back:
        yield _of(Fault.LOST, command, str(answer))


def _was_rolled_back(command: Command, timeline: Timeline) -> bool:
    # The rollback of an instant that is already rolled back succeeds and changes nothing.
    return command.kind is Kind.ROLL_BACK and command.instant in timeline.rolled_back


def _compare(
    command: Command, answer: Answer, events: list[Event], definitions: names.Definitions
) -> Iterator[Finding]:
    if not any(_agrees(command, json.loads(answer.body), event, definitions) for event in events):
        logged = ", ".join(f"{event.instant} at {event.time}" for event in events)
        yield _of(Fault.ANSWER_IS_NOT_THE_LOGS, command, f"{answer}, and {logged}")


def _agrees(command: Command, body: dict[str, Any], event: Event, definitions: names.Definitions) -> bool:
    match command.kind:
        case Kind.BEGIN:
            return bool(body["requested_time"] == event.instant == event.time)
        case Kind.COMPLETE:
            times = (body["requested_time"], body["completion_time"])
            return times == (event.instant, event.time) and event.groups | event.appended == command.groups
        case Kind.INFLIGHT | Kind.HEARTBEAT:
            return bool(body["requested_time"] == event.instant)
        case Kind.ROLL_BACK:
            # It may be answered with the rolled back instant, or with a rollback that is an instant itself.
            return True
        case Kind.ALTER:
            after = names.at(definitions, event.table_id, event.version)
            shown = (body["table_id"], body["name"], body["properties"])
            return after is not None and shown == (event.table_id, after.name, after.properties)
        case _:
            assert_never(command.kind)


def _wrong_tables(
    history: History, effects: dict[str, list[Event]], definitions: names.Definitions
) -> Iterator[Finding]:
    """A command takes effect in the table that had its name then, and only in the required table."""
    for command in history.commands:
        table_id = _table_id(command, effects)
        for event in effects[command.key]:
            before = names.at(definitions, event.table_id, event.version - 1)
            name = command.table if before is None else before.name
            if table_id not in (None, event.table_id) or name != command.table:
                detail = f"version {event.version} of {event.table_id}, then {name}; required was {table_id}"
                yield _of(Fault.WRONG_TABLE, command, detail)


def _doubled(log: Log, checked: set[str]) -> Iterator[Finding]:
    """Requests that were not the clients': one may change several instants, but none of them twice."""
    times = Counter(
        (event.table_id, event.request_id, event.type, event.instant)
        for event in log
        if event.request_id not in checked
    )
    for (table, request_id, kind, instant), count in times.items():
        if count > 1:
            yield Finding(Fault.DOUBLED, table, f"{request_id}: {count} times {kind} of {instant}")


def _of(fault: Fault, command: Command, detail: str) -> Finding:
    return Finding(fault, command.table, f"{command.kind} {command.instant or ''} {command.key}: {detail}")


def _clocks(log: Log) -> Iterator[Finding]:
    for table, events in by_table(log).items():
        for earlier, later in pairwise(sorted(events, key=lambda event: event.version)):
            if later.version != earlier.version + 1:
                yield Finding(Fault.VERSIONS_NOT_DENSE, table, f"{later.version} comes after {earlier.version}")
            if later.time <= earlier.time:
                versions = f"version {earlier.version} at {earlier.time}, {later.version} at {later.time}"
                yield Finding(Fault.CLOCK_WENT_BACK, table, versions)


def _real_time(history: History, effects: dict[str, list[Event]]) -> Iterator[Finding]:
    """A call that begins after another has returned gets a later time, in the same table."""
    tables: dict[str, list[tuple[Command, str]]] = {}
    for command in history.commands:
        for event in effects[command.key][:1]:
            tables.setdefault(event.table_id, []).append((command, event.time))
    for timed in tables.values():
        returned = sorted(
            ((command.returned, time, command) for command, time in timed if command.returned is not None),
            key=lambda entry: entry[0],
        )
        latest: tuple[str, Command | None] = ("", None)
        place = 0
        for command, time in sorted(timed, key=lambda entry: entry[0].called):
            while place < len(returned) and returned[place][0] < command.called:
                latest = max(latest, returned[place][1:], key=lambda entry: entry[0])
                place += 1
            if time <= latest[0] and latest[1] is not None:
                yield _of(Fault.REAL_TIME, command, f"{time}, after {latest[1].key} had got {latest[0]}")


def _instants(tables: dict[str, Timeline]) -> Iterator[Finding]:
    for table, timeline in tables.items():
        for instant, completions in timeline.completed.items():
            if len(completions) > 1:
                yield Finding(Fault.DOUBLED, table, f"{instant} completed {len(completions)} times")
            if completions[0].time <= instant:
                yield Finding(Fault.COMPLETED_TOO_EARLY, table, f"{instant} completed at {completions[0].time}")
        yield from _final_states(table, timeline)
        yield from _conflicts(table, timeline)


def _final_states(table: str, timeline: Timeline) -> Iterator[Finding]:
    # Only a restore undoes a completed instant; a rolled back instant never completes.
    restored = any(event.action == "restore" for event in timeline.requested.values())
    for instant, rolled_back in timeline.rolled_back.items():
        for completed in timeline.completed.get(instant, ()):
            if not restored or completed.version > rolled_back.version:
                versions = f"completed at {completed.version}, rolled back at {rolled_back.version}"
                yield Finding(Fault.LEFT_A_FINAL_STATE, table, f"{instant}: versions {versions}")


def _conflicts(table: str, timeline: Timeline) -> Iterator[Finding]:
    """The first to complete wins. A conflict with any earlier instant is one with the last before it."""
    last: dict[tuple[str, str], Event] = {}
    for event in timeline.completions:
        for group in event.groups:
            winner = last.get(group)
            if winner is not None and (event.instant or "") < winner.time and event.instant != winner.instant:
                yield Finding(
                    Fault.CONFLICT,
                    table,
                    f"{event.instant} completed at {event.time} although {winner.instant} had "
                    f"completed at {winner.time}, both in {group}",
                )
            last[group] = event


def _reads(history: History, effects: dict[str, list[Event]], tables: dict[str, Timeline]) -> Iterator[Finding]:
    for table, timeline in tables.items():
        reads = [read for read in history.reads if read.table_id == table]
        acknowledged = _acknowledged(table, history, effects)
        for read in reads:
            yield from _prefix(read, timeline)
        latest = sorted((read for read in reads if not read.of_the_past), key=lambda read: read.called)
        earlier = sorted((read.returned, timeline.upto(read.upto), read.upto) for read in latest)
        yield from _never_less(Fault.WENT_BACK, latest, earlier, timeline)
        confirmed = sorted((returned, timeline.upto(time), time) for returned, time in acknowledged)
        yield from _never_less(Fault.STALE, latest, confirmed, timeline)


def _acknowledged(table: str, history: History, effects: dict[str, list[Event]]) -> Iterator[tuple[int, str]]:
    for command in history.commands:
        returned = command.returned
        if command.kind is Kind.COMPLETE and returned is not None:
            for event in effects[command.key]:
                if event.table_id == table:
                    yield returned, event.time


def _prefix(read: Read, timeline: Timeline) -> Iterator[Finding]:
    if read.instants is not None:
        seen = [entry for entry in read.instants if not _is_other_action(entry[0], timeline)]
        if seen != timeline.between(read.after, read.upto):
            yield _of_read(Fault.NOT_A_PREFIX, read, _difference(seen, timeline, read))
    if read.files is not None and read.files != timeline.files_as_of(read.upto):
        wrong = read.files ^ timeline.files_as_of(read.upto)
        yield _of_read(Fault.NOT_A_PREFIX, read, f"files {sorted(wrong)[:4]} of {len(wrong)} are wrong")


def _is_other_action(instant: str, timeline: Timeline) -> bool:
    return instant in timeline.requested and not timeline.writes(instant)


def _difference(seen: list[tuple[str, str]], timeline: Timeline, read: Read) -> str:
    logged = timeline.between(read.after, read.upto)
    missing = [entry for entry in logged if entry not in seen]
    invented = [entry for entry in seen if entry not in logged]
    return f"missing {missing[:4]}, invented {invented[:4]}, or in another order"


def _never_less(
    fault: Fault, reads: list[Read], known: list[tuple[int, int, str]], timeline: Timeline
) -> Iterator[Finding]:
    """Each read shows at least as many completions as any client knew before the read was called."""
    most = (0, "")
    place = 0
    for read in reads:
        while place < len(known) and known[place][0] < read.called:
            most = max(most, known[place][1:])
            place += 1
        if timeline.upto(read.upto) < most[0]:
            yield _of_read(fault, read, f"{most[1]} was known before")


def _of_read(fault: Fault, read: Read, detail: str) -> Finding:
    return Finding(fault, read.table_id, f"{read.reader}, ({read.after}, {read.upto}]: {detail}")
