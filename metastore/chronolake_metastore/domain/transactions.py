"""Several instants that complete together: all of them, or none."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.instants import CompleteInstant


class CompleteTogether(Command, frozen=True):
    """In the order of the request."""

    members: list[CompleteInstant]


def check(command: CompleteTogether) -> None:
    """Raise ``InvalidPlan`` or ``InvalidWriteStat`` for instants that cannot complete together.

    Those are an instant that is named twice, one that resizes its table, and one that has staged.
    """
    seen: set[tuple[str, int]] = set()
    for index, member in enumerate(command.members):
        key = member.table, member.requested_time
        if key in seen:
            raise errors.InvalidPlan(f"instants[{index}] is named twice", index=index)
        if member.buckets is not None:
            raise errors.InvalidPlan(
                f"instants[{index}]: an instant that resizes its table completes only alone", index=index
            )
        if member.staged:
            raise errors.InvalidWriteStat(
                f"instants[{index}]: an instant with staged write stats completes only alone; send its "
                "write_stats instead",
                index=index,
            )
        seen.add(key)
