"""Random histories whose old rows leave the log: the state, and every answer about it, needs none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import msgspec
import psycopg
import pytest
from hypothesis.stateful import rule
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.domain import cleans, deletions, instants, restores, savepoints, sweeps
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.needed_events import Need
from chronolake_metastore.store import reconciling
from chronolake_model.files import ColumnStats
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, parse_time
from tests.store import leaving, machines, shown
from tests.store.history import History, file_of
from tests.store.model_of_markers import DELETED_AT_COMPLETION_MAX, File, MarkedInstant
from tests.store.test_marker_machine import STEPS as STEPS_OF_MARKERS, Markers
from tests.store.test_timeline_machine import STEPS, Promises

TABLE = "shop.orders"


class OldRowsLeave(machines.DatabaseMachine):
    """All rows leave that the state does not need, between the commands."""

    def __init__(self) -> None:
        super().__init__()
        leaving.prepare(self.admin)
        self.needs: dict[UUID, Need] = {}

    @rule()
    def let_old_rows_leave(self) -> None:
        self.needs = self.runner.run(leaving.find_needs(self.database))
        leaving.leave(self.admin, self.needs)


class WithoutOldEvents(OldRowsLeave, Promises):
    """All promises of timelines hold."""

    @override
    @rule()
    def look_back_verify_and_rebuild(self) -> None:
        """The projections are those of a replay of the whole log."""
        leaving.put_back(self.admin)
        super().look_back_verify_and_rebuild()
        leaving.leave(self.admin, self.needs)


class MarkersWithoutOldEvents(OldRowsLeave, Markers):
    """The same for the markers of one table. Reports of files whose rows have left are refused."""

    @override
    @rule()
    def verify_and_rebuild(self) -> None:
        """The projections are those of a replay of the whole log."""
        leaving.put_back(self.admin)
        super().verify_and_rebuild()
        leaving.leave(self.admin, self.needs)

    @override
    def is_unknown(self, owner: MarkedInstant, files: Sequence[File]) -> bool:
        kept = {file_name for (file_name,) in self.sql("SELECT file_name FROM chronolake.deleted_file")}
        left = [file for file in owner.deleted - owner.marked if self.name(owner.time, file) not in kept]
        return super().is_unknown(owner, files) or (not owner.is_direct and not set(files).isdisjoint(left))


@pytest.fixture(autouse=True)
def few_markers_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the model of markers."""
    monkeypatch.setattr(reconciling, "DELETED_AT_COMPLETION_MAX", DELETED_AT_COMPLETION_MAX)


MACHINES = [(WithoutOldEvents, STEPS), (MarkersWithoutOldEvents, STEPS_OF_MARKERS)]


@pytest.mark.parametrize(("machine", "steps"), MACHINES)
def test_the_promises_hold_after_old_rows_have_left(
    machine: type[machines.DatabaseMachine], steps: int, new_database: Callable[[], str]
) -> None:
    machines.play(machines.on_real_database(machine, new_database), steps, examples=2, derandomize=True)


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table(TABLE)
        yield history


def write(history: History, largest: int) -> Micros:
    """The requested time of an instant that wrote a base file of one group, with stats of its column."""
    requested_time = history.begin(TABLE)
    stats = [ColumnStats(1, 0, largest, 0)]
    file = msgspec.structs.replace(file_of(requested_time, 0), column_stats=stats)
    history.done(instants.CompleteInstant(TABLE, parse_time(requested_time), [file]))
    history.pass_seconds(100_000)
    return parse_time(requested_time)


def largest_values(history: History) -> list[tuple[bool, int | None]]:
    """Whether each period of each file has ended, and the largest value by the stats of the file."""
    with psycopg.connect(history.dsn) as connection:
        return connection.execute(
            "SELECT superseded_at IS NOT NULL, (column_stats -> '1' ->> 1)::int FROM chronolake.file"
            " ORDER BY live_from, requested_time"
        ).fetchall()


def test_column_stats_of_superseded_files_stay_until_a_clean(history: History) -> None:
    for largest in (10, 20):
        write(history, largest)
    savepoint = shown.instant(history.done(savepoints.CreateSavepoint(TABLE, None, "ann")))
    write(history, 30)
    assert leaving.leave_once(history.dsn) > 0
    assert largest_values(history) == [(True, 10), (True, 20), (False, 30)]

    saved = parse_time(savepoint.requested_time)
    history.done(restores.RestoreTable(TABLE, saved, "ann", "wrong"))
    assert largest_values(history) == [(True, 10), (True, 20), (True, 30), (False, 20)]

    history.done(savepoints.ReleaseSavepoint(TABLE, saved, "ann"))
    history.done(cleans.PlanClean(TABLE, Retention(commits=1), "ann"))
    assert largest_values(history) == [(True, None), (True, 20), (True, 30), (False, 20)]


def test_a_late_report_of_an_instant_whose_events_have_left_is_refused(history: History) -> None:
    instant = history.begin(TABLE)
    history.mark(TABLE, instant, 0, 1)
    history.report(TABLE, instant, 1)
    history.complete(TABLE, instant, [0])
    history.report(TABLE, instant, 1)
    [[since]] = _rows(history, "SELECT chronolake.micros(unswept_since) FROM chronolake.instant")
    history.done(sweeps.RecordSweep(TABLE, parse_time(instant), Micros(since)))
    write(history, 10)
    assert leaving.leave_once(history.dsn) > 0

    file = file_of(instant, 1)
    again = [DeletedFile(file.partition_path, file.file_name)]
    refusal = history.refused(deletions.ReportDeletions(TABLE, parse_time(instant), again))

    assert isinstance(refusal, errors.InvalidDeletion)
    assert "ended long ago" in refusal.detail


def _rows(history: History, query: str) -> list[tuple[int]]:
    with psycopg.connect(history.dsn) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "steps"), MACHINES)
def test_the_promises_hold_without_old_rows_for_as_long_as_one_likes(
    machine: type[machines.DatabaseMachine], steps: int, new_database: Callable[[], str]
) -> None:
    machines.play_long(machines.on_real_database(machine, new_database), steps)
