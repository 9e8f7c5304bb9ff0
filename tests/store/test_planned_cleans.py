"""The plans of cleans in the log, and the state that follows from them."""

from __future__ import annotations

import psycopg
import pytest

from chronolake_metastore.commands import cleans as cleaning
from chronolake_metastore.domain import deletions, instants
from chronolake_metastore.domain.cleans import PlanClean, Retention
from chronolake_model.instants import Instant
from chronolake_model.markers import DeletedFile
from chronolake_model.times import parse_time
from tests.store import shown, tampering
from tests.store.history import History, file_of

TABLE = "shop.orders"


def cleaned(history: History) -> Instant:
    """A clean of all but the last commit, executed."""
    clean = shown.clean(history.done(PlanClean(TABLE, Retention(commits=1), "w")))
    assert clean is not None
    assert clean.plan is not None
    time = parse_time(clean.requested_time)
    history.done(
        deletions.ReportDeletions(TABLE, time, [DeletedFile("", path) for path in clean.plan.files_to_delete])
    )
    history.done(
        instants.CompleteInstant(
            TABLE,
            time,
        )
    )
    return clean


def planned_by(dsn: str) -> dict[str, str | None]:
    """The files of the table, and the clean that each was planned by."""
    with psycopg.connect(dsn) as connection:
        return dict(
            connection.execute(
                "SELECT f.file_name, chronolake.instant_time(f.cleaned_by, 1000) FROM chronolake.file f"
            ).fetchall()
        )


@pytest.fixture
def history(dsn: str) -> History:
    history = History(dsn)
    history.make_namespace("shop")
    history.make_table(TABLE)
    return history


def test_a_rebuild_knows_which_clean_planned_a_file(history: History) -> None:
    with history:
        first, _ = history.write(TABLE, 0, 1)
        last, completed = history.write(TABLE, 0)
        clean = cleaned(history)
        expected = {
            file_of(first, 0).file_name: clean.requested_time,
            file_of(first, 1).file_name: None,
            file_of(last, 0).file_name: None,
        }
        assert planned_by(history.dsn) == expected
        assert tampering.verify(history.dsn).findings == []
        with psycopg.connect(history.dsn) as connection:
            connection.execute("UPDATE chronolake.file SET cleaned_by = NULL")
            connection.execute("UPDATE chronolake.lake_table SET cleaned_before = NULL")
        assert len(tampering.verify(history.dsn).findings) == 2

        history.rebuild()

        assert planned_by(history.dsn) == expected
        assert tampering.verify(history.dsn).findings == []
        assert clean.plan is not None
        assert clean.plan.cleaned_before == completed


def test_the_files_of_a_plan_are_bounded_and_the_next_plan_has_the_others(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "FILES_TO_CLEAN_MAX", 2)
    with history:
        first, _ = history.write(TABLE, 0, 1)
        second, superseded = history.write(TABLE, 0, 1)
        history.write(TABLE, 0, 1)

        first_plan, second_plan = cleaned(history).plan, cleaned(history).plan

        assert first_plan is not None
        assert second_plan is not None
        assert first_plan.files_to_delete == [file_of(first, bucket).file_name for bucket in (0, 1)]
        assert first_plan.cleaned_before == superseded
        assert second_plan.files_to_delete == [file_of(second, bucket).file_name for bucket in (0, 1)]
