"""The faults that the checker looks for in a history."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from typing_extensions import override


class Fault(enum.StrEnum):
    """A promise that was broken, and how."""

    LOST = "an acknowledged command is not in the log"
    DOUBLED = "a command took effect twice"
    REFUSED_YET_DONE = "a refused command took effect"
    ANSWERS_DIFFER = "one idempotency key got two answers"
    ANSWER_IS_NOT_THE_LOGS = "an answer says another thing than the log"
    OUTCOME_FORGOTTEN = "the outcome of a command that took effect cannot be looked up"
    SERVER_FAILED = "a server met a bug of its own"

    CLOCK_WENT_BACK = "the times of a table do not increase with its versions"
    VERSIONS_NOT_DENSE = "the versions of a table have a gap"
    COMPLETED_TOO_EARLY = "an instant completed no later than it was requested"
    REAL_TIME = "a command got an earlier time than one that had returned before it was called"

    WRONG_TABLE = "a command took effect in another table than the one it named"
    TWO_HAD_ONE_NAME = "two tables had one name at the same time"
    WRONG_NAME = "a name was resolved, or a definition shown, as it was not at any moment of the request"

    CONFLICT = "two instants that wrote one file group at the same time both completed"
    LEFT_A_FINAL_STATE = "an instant was completed and rolled back"

    NOT_A_PREFIX = "a reader saw what is no prefix of the timeline"
    WENT_BACK = "a reader saw less than a read that had returned before"
    STALE = "a reader did not see what had been acknowledged before"

    FEED_MISSED = "the feed left out an event"
    FEED_DOUBLED = "the feed gave an event twice"
    FEED_REORDERED = "the feed gave an event before an earlier one"
    FEED_INVENTED = "the feed gave an event that is not in the log"


@dataclass(frozen=True)
class Finding:
    """A fault in a history: its kind, the id or the name of its table, and the detail."""

    fault: Fault
    table: str
    detail: str

    @override
    def __str__(self) -> str:
        return f"{self.fault}: {self.table or 'all tables'}: {self.detail}"
