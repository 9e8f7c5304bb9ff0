"""The parts of a history: requests and answers of clients, reads of readers, and the log at the end.

Moments are nanoseconds of one process's monotonic clock, so that "returned before the other was called" is
known of any two calls to any servers. Times are instant times, as the server writes them.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

Group = tuple[str, str]
"""A file group: partition path and file id."""
Place = tuple[str, int, str]
"""An event of the log: table id, version, hash."""
ShownFile = tuple[str, str, str]
"""A data file that a snapshot shows: partition path, file id, requested time of the instant that wrote it."""


class Kind(enum.StrEnum):
    """The kind of a command."""

    BEGIN = "begin"
    INFLIGHT = "inflight"
    HEARTBEAT = "heartbeat"
    COMPLETE = "complete"
    ROLL_BACK = "rollback"
    ALTER = "alter"


@dataclass(frozen=True)
class Answer:
    """A decision as the client received it: a success, or a refusal that is final for its key."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the command was carried out."""
        return self.status < 400


@dataclass
class Attempt:
    """One sending of a command. Without an answer it is unknown whether it was carried out."""

    server: int
    called: int
    returned: int | None = None
    answer: Answer | None = None


@dataclass
class Command:
    """A command under one idempotency key, however often it was sent.

    ``table`` is the name of the table, as far as the client knew it. ``table_id`` is the id that the table must
    have, if the client gave one. ``begun_by`` is the key of the command that began the instant, ``groups`` are
    the file groups that a complete publishes files in.
    """

    key: str
    table: str
    kind: Kind
    instant: str | None = None
    groups: frozenset[Group] = frozenset()
    attempts: list[Attempt] = field(default_factory=list)
    table_id: str | None = None
    begun_by: str | None = None

    @property
    def called(self) -> int:
        """When it was sent for the first time."""
        return min(attempt.called for attempt in self.attempts)

    @property
    def returned(self) -> int | None:
        """When it was answered for the first time; None while its outcome is unknown."""
        return min(
            (attempt.returned for attempt in self.attempts if attempt.returned is not None), default=None
        )

    @property
    def answers(self) -> list[Answer]:
        """Every answer that it got."""
        return [attempt.answer for attempt in self.attempts if attempt.answer is not None]


@dataclass(frozen=True)
class Read:
    """A read of the table with this id: the instants that completed in (after, upto].

    ``instants`` are pairs of requested and completion time, in the order in which they were shown; ``files``
    are those of a snapshot; a part that was not requested is None. A read of the past names its ``upto``, so it
    need not show newer instants.
    """

    reader: str
    table_id: str
    called: int
    returned: int
    upto: str
    after: str = ""
    instants: tuple[tuple[str, str], ...] | None = None
    files: frozenset[ShownFile] | None = None
    of_the_past: bool = False


@dataclass(frozen=True)
class Resolution:
    """How a server resolved a name: as that of the table with this id, or not, when ``is_found`` is false.

    Without a ``table_id`` the request accepted any table of the name, and there was none. ``properties`` are
    those that were shown.
    """

    name: str
    table_id: str | None
    is_found: bool
    called: int
    returned: int
    properties: dict[str, str] | None = None


@dataclass
class Stretch:
    """The events that a follower of the feed got between two breaks, in their order of arrival.

    It began after the event ``after``, or at the beginning, and went on at least to the event ``until``.
    ``table_id`` is None for the feed of all tables.
    """

    follower: str
    table_id: str | None = None
    after: Place | None = None
    until: Place | None = None
    places: list[Place] = field(default_factory=list)


@dataclass
class History:
    """Everything that the clients wrote down."""

    commands: list[Command] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    unanswered: int = 0
    """Attempts and queries that were lost: the server did not run, ended, or was not waited for."""
    given_up: int = 0
    """Commands whose client stopped asking."""
    looked_up: int = 0
    """Outcomes of such commands that were looked up at the end."""
    forgotten: list[Command] = field(default_factory=list)
    """Commands that were in the log when their outcome was looked up, which was not there."""
    failures: list[str] = field(default_factory=list)
    """Answers that no client can do anything with: a server that met a bug of its own."""

    def figures(self) -> Counter[str]:
        """Counts of everything in the history, so that an empty history is noticed."""
        figures: Counter[str] = Counter()
        for command in self.commands:
            figures[f"{command.kind} sent"] += 1
            for answer in command.answers[:1]:
                figures[f"{command.kind} answered {answer.status}"] += 1
        figures["commands"] = len(self.commands)
        figures["commands given up"] = self.given_up
        figures["outcomes looked up"] = self.looked_up
        figures["attempts without an answer"] = self.unanswered
        figures["reads"] = len(self.reads)
        for resolution in self.resolutions:
            figures["names found" if resolution.is_found else "names not found"] += 1
        figures["stretches of the feed"] = len(self.stretches)
        figures["events given to followers"] = sum(len(stretch.places) for stretch in self.stretches)
        return figures


@dataclass(frozen=True)
class Change:
    """The change of a table by an event: its name, unless that is None, and the properties set and removed."""

    name: str | None = None
    set: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One event of the log.

    Of a completed instant ``groups`` are the file groups that it wrote a base file into, ``appended`` those
    that it added log files to. ``change`` is that of a table which is created or altered.
    """

    table_id: str
    version: int
    type: str
    time: str
    request_id: str
    instant: str | None = None
    action: str | None = None
    groups: frozenset[Group] = frozenset()
    appended: frozenset[Group] = frozenset()
    change: Change | None = None
    hash: str = ""

    @property
    def place(self) -> Place:
        """The values that identify an event and its content."""
        return self.table_id, self.version, self.hash


Log = list[Event]
"""The events of all tables, in the order across tables."""


def by_table(log: Iterable[Event]) -> dict[str, list[Event]]:
    """The events of each table, by its id, in their order."""
    tables: dict[str, list[Event]] = {}
    for event in log:
        tables.setdefault(event.table_id, []).append(event)
    return tables
