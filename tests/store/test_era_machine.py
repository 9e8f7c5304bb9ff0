"""Random histories whose old rows leave PostgreSQL: all answers are those of a history where none leave."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain import needed_events, needed_instants, publication
from chronolake_metastore.domain.needed_events import Causes, Need
from chronolake_metastore.queries import deletions, event_lists, events, instants as instant_queries
from chronolake_metastore.queries.event_lists import ListRequest
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import Micros
from tests.store import archiving, machines, thinned
from tests.store.archive_reads import reader_of
from tests.store.command_strategies.draws import DrawnCommand
from tests.store.dying import DyingSession
from tests.store.shown import TESTER
from tests.store.test_timeline_machine import Promises, outcome

EXAMPLES = 3
STEPS = 20
ERAS_MAX = 8
OF_ARCHIVE = "archived-era-"
"""How the keys begin under which archived eras are recorded."""
_BLOCKERS = needed_events.need_for_blockers


def need(causes: Causes) -> Need:
    """The need of a table that is published, and keeps no commit for its window."""
    published = msgspec.structs.replace(causes, published_version=causes.version, history_before=Micros(2**62))
    return _BLOCKERS(published)


class HistoryInEras(Promises):
    """Eras begin between the commands, and old answers and events leave.

    The schema ``whole`` has each row of the log, so that readers of a whole log go on.
    """

    instants = "whole.instant"
    left = 0
    """The events that have left in all examples."""
    instants_left = 0
    """The instants that have."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.archive = archiving.local(Path(self.folder.name))
        self.archived = RowsOfArchive(ArchiveStorage(self.archive))
        self.eras = 1
        self.sql("CREATE SCHEMA whole")
        for table in thinned.TABLES:
            self.sql(f"CREATE TABLE whole.{table} (LIKE chronolake.{table} INCLUDING INDEXES)")
        self.sql("CREATE TABLE whole.left_instant (LIKE chronolake.instant INCLUDING INDEXES)")
        self.sql("CREATE VIEW whole.instant AS TABLE chronolake.instant UNION ALL TABLE whole.left_instant")
        self.sql("SET search_path = whole, chronolake")
        self.runner.run(self.session.close())
        self.runner.run(self.database.close())
        log = reader_of(self.archive)
        self.database = Database(self.settings, lambda: log)
        self.session = DyingSession(self.database, self.sever)

    @override
    def teardown(self) -> None:
        assert self.verify() == []
        assert thinned.left_over(self.settings.dsn) == []
        self.folder.cleanup()
        super().teardown()

    @precondition(lambda self: self.eras < ERAS_MAX)
    @rule()
    def begin_an_era(self) -> None:
        self.eras += 1
        self.sql(
            "SELECT chronolake.begin_era(last.era + 1) FROM (SELECT max(era) AS era FROM chronolake.era) last"
        )

    @rule(events_max=st.integers(1, 30))
    def write_the_archive(self, events_max: int) -> None:
        archiving.write(self.settings.dsn, self.archive, events_max)

    @precondition(lambda self: self.eras < ERAS_MAX)
    @rule()
    def drop_old_rows(self) -> None:
        self.copy_the_log()
        archiving.write(self.settings.dsn, self.archive)
        self.eras += 1
        assert archiving.drop(self.settings.dsn, self.archive).kept == 1
        before = self.runner.run(self.answers())
        with (
            mock.patch.object(needed_events, "need", need),
            mock.patch.object(needed_events, "need_for_blockers", need),
        ):
            HistoryInEras.left += archiving.thin(self.settings.dsn, self.archive)
            HistoryInEras.instants_left += self.let_instants_leave()
        assert self.runner.run(self.answers()) == before

    def let_instants_leave(self) -> int:
        """Let them leave as if publication were off, and policies counted as little as those of the cleans."""
        self.sql("CREATE TABLE whole.before AS TABLE chronolake.instant")
        with (
            mock.patch.object(publication, "is_off", lambda _: True),
            mock.patch.object(needed_instants, "counted", lambda _: (4, 0)),
        ):
            left = archiving.let_instants_leave(self.settings.dsn)
        self.sql(
            "INSERT INTO whole.left_instant SELECT * FROM whole.before b WHERE NOT EXISTS (SELECT"
            " FROM chronolake.instant i WHERE (i.table_id, i.requested_time) = (b.table_id, b.requested_time))"
        )
        self.sql("DROP TABLE whole.before")
        return left

    @override
    def check(
        self, drawn: Sequence[DrawnCommand], requests: Sequence[Request], results: Sequence[Result]
    ) -> None:
        """Commands on an instant that has left are refused."""
        for command, request, result in zip(drawn, requests, results, strict=True):
            if isinstance(result, errors.TimelineError) and result.context.get("state") == "archived":
                self.refused.append(request.ctx.request_id)
                self.outcomes[request.ctx.request_id] = request, outcome(result)
            else:
                super().check([command], [request], [result])

    def copy_the_log(self) -> None:
        """Copy new rows; those that stay when an era is thinned may get a later era."""
        for table in thinned.TABLES:
            self.sql(
                f"INSERT INTO whole.{table} SELECT * FROM chronolake.{table} x WHERE NOT EXISTS ("
                f"SELECT FROM whole.{table} w WHERE (w.table_id, w.version) = (x.table_id, x.version))"
            )

    async def answers(self) -> list[object]:
        """The answers on all history: events, times of cursors, lists, deleted files, instants."""
        log = reader_of(self.archive)
        database = Database(self.settings, lambda: log)
        try:
            return [await self.answers_on(database, table) for table in (None, *sorted(self.timelines))]
        finally:
            await database.close()

    async def answers_on(self, database: Database, table: str | None) -> list[object]:
        """The answers on one table, or on the log of all tables."""
        answers: list[object] = []
        after, caught_up = None, False
        while not caught_up:
            page = await events.page(TESTER, database, table, after, 7)
            after, caught_up = page.cursor, page.caught_up
            answers.append(page)
            for name in sorted(self.timelines):
                try:
                    answers.append(await events.time_of_cursor(TESTER, database, name, page.cursor))
                except errors.InvalidCursor as exc:
                    answers.append(exc.code)
        if table is None:
            return answers
        for requested_time in sorted(self.timelines[table].instants):
            time = Micros(requested_time)
            request = ListRequest(time, 1_000, None)
            for read in (
                event_lists.planned_file_groups,
                event_lists.planned_files,
                event_lists.planned_instants,
                event_lists.replaced_file_groups,
            ):
                answers.append(await read(TESTER, database, table, request))
            for unpublished in (False, True):
                answers.append(
                    await deletions.page(TESTER, database, table, time, 1_000, None, unpublished=unpublished)
                )
            answers.append(await instant_queries.get(TESTER, database, table, time))
        return answers

    @override
    def compare_views(self, name: str, turn: int | None) -> None:
        self.copy_the_log()
        super().compare_views(name, turn)

    @override
    @invariant()
    def every_outcome_is_known_and_every_refusal_recorded_once(self) -> None:
        recorded = self.recorded_outcomes()
        refused = {request_id for (request_id,) in self.sql("SELECT request_id FROM chronolake.refusal")}
        content = archiving.content(self.archive)
        for row in content["outcome"]:
            outcome = row[2], row[6], row[7]
            assert recorded.setdefault(row[:2], outcome) == outcome
        refused |= {recorded[row[:2]][0] for row in content["refusal"]}
        assert {key: rest for key, *rest in recorded.values() if not key.startswith(OF_ARCHIVE)} == {
            request_id: list(outcome) for request_id, (_, outcome) in self.outcomes.items()
        }
        assert refused == set(self.refused)

    @invariant()
    def all_events_are_there_from_the_first_one_on(self) -> None:
        gaps = """
            SELECT c.table_id
            FROM chronolake.clock c LEFT JOIN chronolake.first_event f USING (table_id)
            WHERE c.version - coalesce(f.version, 1) + 1 <> (
                SELECT count(*) FROM chronolake.event e
                WHERE e.table_id = c.table_id AND e.version >= coalesce(f.version, 1)
            )
        """
        assert self.sql(gaps) == []


def test_all_answers_are_those_of_a_history_that_stays(new_database: Callable[[], str]) -> None:
    machines.play(machines.on_real_database(HistoryInEras, new_database), STEPS, EXAMPLES, derandomize=True)


@pytest.mark.slow
def test_all_answers_stay_when_events_leave(new_database: Callable[[], str]) -> None:
    """Longer histories: in short ones most events are needed."""
    machines.play(machines.on_real_database(HistoryInEras, new_database), 35, 6, derandomize=True)
    assert HistoryInEras.left > 0
