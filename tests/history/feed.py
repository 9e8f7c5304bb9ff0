"""The events that followers received, compared with the log: every event, once, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.history.findings import Fault, Finding
from tests.history.records import Event, Log, Place, Stretch, by_table


def check(stretches: Iterable[Stretch], log: Log) -> Iterator[Finding]:
    """Each stretch must equal the log from its begin to its end, and include its required last event."""
    orders: dict[str | None, dict[Place, int]] = {None: _order(log)}
    for table_id, events in by_table(log).items():
        orders[table_id] = _order(sorted(events, key=lambda event: event.version))
    for stretch in stretches:
        yield from _stretch(stretch, orders.get(stretch.table_id, {}))


def _order(events: list[Event]) -> dict[Place, int]:
    return {event.place: number for number, event in enumerate(events)}


def _stretch(stretch: Stretch, order: dict[Place, int]) -> Iterator[Finding]:
    for place in stretch.places:
        if place not in order:
            yield _of(Fault.FEED_INVENTED, stretch, place)
    given = [order[place] for place in stretch.places if place in order]
    by_number = {order[place]: place for place in stretch.places if place in order}
    start = -1 if stretch.after is None else order.get(stretch.after, -1)
    end = max([*given, start, -1 if stretch.until is None else order.get(stretch.until, -1)])
    if missed := set(range(start + 1, end + 1)).difference(given):
        for place, number in order.items():
            if number in missed:
                yield _of(Fault.FEED_MISSED, stretch, place)
    for number, times in Counter(given).items():
        if times > 1 or number <= start:
            yield _of(Fault.FEED_DOUBLED, stretch, by_number[number])
    highest = start
    for number in given:
        if number < highest:
            yield _of(Fault.FEED_REORDERED, stretch, by_number[number])
        highest = max(highest, number)


def _of(fault: Fault, stretch: Stretch, place: Place) -> Finding:
    table_id, version, _ = place
    return Finding(fault, stretch.table_id or "", f"{stretch.follower}: version {version} of {table_id}")
