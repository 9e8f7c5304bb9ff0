"""The filters of a timeline, named as in Hudi. Each returns another timeline; nothing is sent yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Self, TypeVar

import msgspec

from chronolake import calls
from chronolake.calls.base import Call
from chronolake.calls.timeline import InstantFilter
from chronolake_model.instants import REQUESTED_TIMES_MAX, CompletionTimes
from chronolake_model.times import Moment, digits_of, requested_digits_of
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder

PENDING = (State.REQUESTED, State.INFLIGHT)
_Transport = TypeVar("_Transport")
_Choice = TypeVar("_Choice", State, Action, Operation)


class TimelineFilter(Generic[_Transport]):
    """A table's timeline, or a part of it; each method returns another timeline."""

    def __init__(
        self,
        transport: _Transport,
        table: str,
        filter: InstantFilter = InstantFilter(),  # noqa: B008  # frozen
    ) -> None:
        self._transport: _Transport = transport
        self._table = table
        self._filter = filter

    def where(
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        operation: Operation | Iterable[Operation] = (),
        writer: str | None = None,
    ) -> Self:
        """Only instants with one of these states, actions and operations, and of this writer.

        A pending compaction, log compaction or clustering has that action. Once completed, its action is
        commit, deltacommit or replacecommit, and its operation still tells it. Raises ``ValueError`` when no
        instant can pass.
        """
        before = self._filter
        if writer is not None and before.writer is not None and writer != before.writer:
            raise ValueError(f"no instant has both the writer {before.writer!r} and the writer {writer!r}")
        return self._with(
            state=_both(before.state, as_tuple(State, state)),
            action=_both(before.action, as_tuple(Action, action)),
            operation=_both(before.operation, as_tuple(Operation, operation)),
            writer=before.writer if writer is None else writer,
        )

    def pending(self) -> Self:
        """Only instants that may still complete: requested and inflight."""
        return self.where(state=PENDING)

    def completed(self) -> Self:
        """Only instants that have completed."""
        return self.where(state=State.COMPLETED)

    def rollbacks(self) -> Self:
        """Only the rollbacks; ``target`` of each is the instant that it rolls back."""
        return self.where(action=Action.ROLLBACK)

    def savepoints(self) -> Self:
        """Only the savepoints that are not released; ``target`` of each is the instant that it pins."""
        return self.where(action=Action.SAVEPOINT, state=State.COMPLETED)

    def active(self) -> Self:
        """Only instants that the server's database has, without those that are in the archive of the log."""
        return self._with(active_only=True)

    def by_completion_time(self) -> Self:
        """In the order of completion; times given later are completion times. Only completed instants."""
        return self._with(order_by=TimeOrder.COMPLETION_TIME)

    def by_requested_time(self) -> Self:
        """In the order in which they were requested; times given later are requested times."""
        return self._with(order_by=TimeOrder.REQUESTED_TIME)

    def before_or_on(self, time: Moment) -> Self:
        """Only instants at this requested time or before; after ``by_completion_time``, completion time."""
        return self._bounded(self._bound_name("to"), min, time)

    def after(self, time: Moment) -> Self:
        """Only instants after this time, compared as in ``before_or_on``."""
        return self._bounded(self._bound_name("from"), max, time)

    def reverse(self) -> Self:
        """In reverse order: newest first, if it was oldest first."""
        forward = self._filter.direction is Direction.ASCENDING
        return self._with(direction=Direction.DESCENDING if forward else Direction.ASCENDING)

    def _bound_name(self, end: str) -> str:
        by_completion = self._filter.order_by is TimeOrder.COMPLETION_TIME
        return f"{'completed' if by_completion else 'requested'}_{end}"

    def _bounded(self, bound: str, narrower: Callable[[Iterable[str]], str], time: Moment) -> Self:
        before: Moment | None = getattr(self._filter, bound)
        digits = digits_of if bound.startswith("completed") else requested_digits_of
        times = [digits(moment) for moment in (time, before) if moment is not None]
        return self._with(**{bound: narrower(times)})

    def _with(self, **changes: object) -> Self:
        return type(self)(self._transport, self._table, msgspec.structs.replace(self._filter, **changes))

    def _filter_of_nth(self, number: int) -> InstantFilter:
        if number < 0:
            raise ValueError(f"instants are counted from 0, not {number}; reverse() counts from the other end")
        return msgspec.structs.replace(self._filter, skip=number)


def as_tuple(choice: type[_Choice], words: _Choice | str | Iterable[_Choice | str]) -> tuple[_Choice, ...]:
    """One choice or several, as a tuple. A text is a choice too, and no list of letters."""
    return tuple(choice(word) for word in ([words] if isinstance(words, str) else words))


def completion_calls(table: str, requested_times: Iterable[str]) -> list[Call[CompletionTimes]]:
    """Calls for completion times, each with as many instants as the server accepts."""
    times = list(requested_times)
    return [
        calls.timeline.completion_times(table, times[first : first + REQUESTED_TIMES_MAX])
        for first in range(0, len(times), REQUESTED_TIMES_MAX)
    ]


def _both(before: tuple[_Choice, ...], now: tuple[_Choice, ...]) -> tuple[_Choice, ...]:
    """The words that are in both; an empty tuple stands for all words."""
    if not before or not now:
        return before or now
    common = tuple(word for word in before if word in now)
    if not common:
        raise ValueError(f"no instant is both {' or '.join(before)} and {' or '.join(now)}")
    return common
