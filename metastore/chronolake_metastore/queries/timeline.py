"""The timeline of a table across the border of its instants: older ones are in the archive.

A transaction must not wait for the archive. So a query that needs its answer ends with ``ArchiveNeeded``, and
``across_border`` runs it again with that answer. Instants in the archive never change, and neither do answers.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.queries.archived import ask
from chronolake_metastore.store import archived, instants as stored
from chronolake_metastore.store.archived import ArchivedCompletion, ArchivedLog, InstantsBorder, LogBorder
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State

COMPLETIONS_MAX: Final = 100_000
"""The most completions that a query about a range reads."""
_RESTORED: Final = (Action.RESTORE, State.COMPLETED)
P = ParamSpec("P")
ResultT = TypeVar("ResultT")
Answers = dict[Hashable, Any]
"""The answers of the archive to a query, by its questions."""


class ArchiveNeeded(Exception):
    """A query needs an answer of the archive, which ``read`` gives outside of transactions."""

    def __init__(self, key: Hashable, border: LogBorder, read: Callable[[ArchivedLog], object]) -> None:
        super().__init__("instants are only in the archive")
        self.key = key
        self.border = border
        self.read = read


def across_border(
    query: Callable[Concatenate[Answers, Context, Database, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Context, Database, P], Coroutine[Any, Any, ResultT]]:
    """The query, which runs until the archive has answered all that it needs.

    It raises ``ArchiveNotSet`` or ``ArchiveUnavailable`` too.
    """

    @functools.wraps(query)
    async def run(ctx: Context, database: Database, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return await answered(database, lambda answers: query(answers, ctx, database, *args, **kwargs))

    return run


async def answered(database: Database, query: Callable[[Answers], Awaitable[ResultT]]) -> ResultT:
    """As ``across_border``, of one call."""
    answers: Answers = {}
    while True:
        try:
            return await query(answers)
        except ArchiveNeeded as exc:
            needed = exc
        answers[needed.key] = await ask(database, needed.border, needed.read)


class Timeline:
    """The timeline of one table in a transaction that reads. Methods raise ``ArchiveNeeded``."""

    def __init__(self, answers: Answers, connection: Connection, table_id: UUID) -> None:
        self._answers = answers
        self._border: InstantsBorder | None = None
        self._is_border_known = False
        self._begins: dict[Micros, Micros] = {}
        """The beginnings of ranges of completions that were asked for, by their ends."""
        self.connection = connection
        self.table_id = table_id

    async def border(self) -> InstantsBorder | None:
        """The border of the instants; None while the database has all of them."""
        if not self._is_border_known:
            self._border = await archived.instants_border(self.connection, self.table_id)
            self._is_border_known = True
        return self._border

    def ask(
        self, border: InstantsBorder, key: tuple[Hashable, ...], read: Callable[[ArchivedLog], ResultT]
    ) -> ResultT:
        """The answer of the archive to a question about instants before the border."""
        whole_key = self.table_id, border.since, *key
        if whole_key not in self._answers:
            raise ArchiveNeeded(whole_key, border.log, read)
        answer: ResultT = self._answers[whole_key]
        return answer

    async def get(self, requested_time: Micros) -> Instant | None:
        """The instant requested at this time, if there is one."""
        instant = await stored.get(self.connection, self.table_id, requested_time)
        border = await self.border() if instant is None else None
        if border is not None and requested_time < border.since:
            times = [requested_time]
            [instant] = self.ask(border, ("instants", *times), lambda log: log.instants(self.table_id, times))
        return instant

    async def archived(self, requested_times: Collection[Micros]) -> dict[Micros, Instant]:
        """The instants that only the archive has, of those requested at these times."""
        border = await self.border() if requested_times else None
        old = [] if border is None else sorted(time for time in requested_times if time < border.since)
        if border is None or not old:
            return {}
        found = self.ask(border, ("instants", *old), lambda log: log.instants(self.table_id, old))
        return {time: instant for time, instant in zip(old, found, strict=True) if instant is not None}

    async def completion_times(self, requested_times: Sequence[Micros]) -> list[Micros | None]:
        """The completion time of each instant, in the order asked; none of one that is not completed."""
        times, since = await stored.completion_times(self.connection, self.table_id, requested_times)
        if since is None:
            return times
        wanted = zip(requested_times, times, strict=True)
        old = sorted({requested for requested, time in wanted if time is None and requested < since})
        border = await self.border() if old else None
        if border is None:
            return times
        found = self.ask(
            border, ("completion times", *old), lambda log: log.completion_times(self.table_id, old)
        )
        by_request = dict(zip(old, found, strict=True))
        return [
            by_request.get(requested) if time is None else time
            for requested, time in zip(requested_times, times, strict=True)
        ]

    async def latest_completion(self, until: Micros | None) -> Micros | None:
        """The last completion time, of those by ``until`` if that is given; undone since or not."""
        latest, may_be_later = await stored.latest_completion(self.connection, self.table_id, until)
        border = await self.border() if may_be_later else None
        if border is None:
            return latest
        end = border.since if until is None else min(until, border.since)
        old = self.ask(
            border, ("latest completion", end), lambda log: log.latest_completion(self.table_id, end)
        )
        return max((time for time in (latest, old) if time is not None), default=None)

    async def completed_between(self, after: Micros, until: Micros, limit: int) -> list[tuple[Micros, Micros]]:
        """Requested and completion times of the writes completed in (after, until], by completion time.

        Those are left out that a restore had undone by then.
        """
        old = await self._completions(after, until)
        found = (await self._served_at(old, until, limit))[:limit]
        if len(found) < limit:
            newer = await self._in_database(after), until, limit - len(found)
            found += await stored.completed_between(self.connection, self.table_id, *newer)
        return found

    async def restores_between(self, after: Micros, until: Micros, limit: int) -> list[tuple[Micros, Micros]]:
        """Requested and completion times of the restores completed in (after, until], by completion time."""
        old = await self._completions(after, until)
        found = [(done.requested, done.completed) for done in old if (done.action, done.state) == _RESTORED]
        found = found[:limit]
        if len(found) < limit:
            newer = await self._in_database(after), until, limit - len(found)
            found += await stored.restores_between(self.connection, self.table_id, *newer)
        return found

    async def nth_completion(self, after: Micros, until: Micros, nth: int) -> Micros | None:
        """When the ``nth`` of the writes and restores in (after, until] completed; None if there are fewer.

        Instants that a restore has undone count too.
        """
        assert nth <= COMPLETIONS_MAX
        old = await self._completions(after, until)
        if nth <= len(old):
            return old[nth - 1].completed
        newer = await self._in_database(after), until, nth - len(old)
        return await stored.nth_completion(self.connection, self.table_id, *newer)

    async def _in_database(self, after: Micros) -> Micros:
        """The time after which the database has all completions, of those after a time."""
        border = await self.border()
        return after if border is None else max(after, border.since)

    async def _completions(self, after: Micros, until: Micros) -> Sequence[ArchivedCompletion]:
        """The writes and restores of the archive that completed in (after, until], undone since or not.

        The first ``COMPLETIONS_MAX`` at least, if there are more.
        """
        border = await self.border()
        if border is None or after >= border.since:
            return ()
        # The end of the table moves on between two runs of a query, and that of the archived part does not.
        end = min(until, border.since)
        # Pages that follow are in the answer for the first one.
        begin = self._begins[end] = min(self._begins.get(end, after), after)
        search = self.table_id, begin, end, COMPLETIONS_MAX + 1
        found = self.ask(border, ("completions", begin, end), lambda log: log.completions(*search))
        return found[bisect_right(found, after, key=lambda completion: completion.completed) :]

    async def _served_at(
        self, completions: Sequence[ArchivedCompletion], until: Micros, limit: int
    ) -> list[tuple[Micros, Micros]]:
        """The first of the writes that no restore had undone at a time: requested and completion times."""
        served: list[tuple[Micros, Micros]] = []
        for begin in range(0, len(completions), limit):
            portion = completions[begin : begin + limit]
            undone = [done.requested for done in portion if done.state is State.ROLLED_BACK]
            left_out = await self._undone_by(undone, until) if undone else set()
            left_out |= {done.requested for done in portion if (done.action, done.state) == _RESTORED}
            served += [(done.requested, done.completed) for done in portion if done.requested not in left_out]
            if len(served) >= limit:
                break
        return served

    async def _undone_by(self, undone: Sequence[Micros], until: Micros) -> set[Micros]:
        """The archived instants that were undone up to a time, or by the release of a savepoint."""
        border = await self.border()
        assert border is not None
        found = self.ask(border, ("instants", *undone), lambda log: log.instants(self.table_id, undone))
        restores = [None if instant is None else instant.rolled_back_by for instant in found]
        named = sorted({time for time in restores if time is not None})
        times = dict(zip(named, await self.completion_times(named), strict=True))
        undone_at = [None if time is None else times[time] for time in restores]
        return {
            requested
            for requested, time in zip(undone, undone_at, strict=True)
            if time is None or time <= until
        }
