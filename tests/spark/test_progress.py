"""The progress of writes: descriptions of Spark's jobs, and the line in a terminal."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from chronolake_model import environment
from chronolake_model.file_names import base_file_name, log_file_name, write_token
from chronolake_model.markers import Marker, MarkerKind
from chronolake_spark import SparkTable
from chronolake_spark.driver import progress
from tests.spark.prices import priced

pytestmark = pytest.mark.spark


def described_as(spark: SparkSession, job_id: int) -> str:
    return str(spark.sparkContext._jsc.sc().statusStore().job(job_id).description().get())


def job_of(spark: SparkSession, group: str) -> int:
    [job_id] = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    return int(job_id)


def test_jobs_of_threads_have_their_own_descriptions_and_the_callers_are_set_again(spark: SparkSession):
    context = spark.sparkContext
    shown: dict[str, str] = {}

    def run(name: str, before: str | None) -> None:
        context.setJobGroup(name, before or "")
        context.setLocalProperty("spark.job.description", before)
        with progress.described(spark, f"upsert {name}"):
            context.parallelize([1], 1).count()
        assert context.getLocalProperty("spark.job.description") == before
        assert context.getLocalProperty("spark.jobGroup.id") == name
        shown[name] = described_as(spark, job_of(spark, name))

    threads = [
        threading.Thread(target=run, args=arguments) for arguments in (("a.x", None), ("a.y", "nightly"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown == {"a.x": "upsert a.x", "a.y": "nightly: upsert a.y"}
    with pytest.raises(ZeroDivisionError), progress.described(spark, "upsert a.z"):
        _ = 1 / 0
    assert context.getLocalProperty("spark.job.description") is None
    assert not context.getJobTags()


def test_a_terminal_shows_tasks_and_rows_unless_it_is_switched_off(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.01)
    states: list[str | None] = []
    asked = threading.Event()
    own = progress.rows_and_tasks

    def spied(*args: Any) -> str | None:
        states.append(own(*args))
        if states[-1]:
            asked.set()
        return states[-1]

    monkeypatch.setattr(progress, "rows_and_tasks", spied)

    def shown(*, is_terminal: bool) -> str:
        console = Console(file=io.StringIO(), force_terminal=is_terminal)
        with progress.described(spark, "upsert a.x", console):
            rows = spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number + 1)
            while is_terminal and not asked.is_set():
                rows.count()
        file = console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()

    assert "upsert a.x: " in shown(is_terminal=True)
    assert any(state and " of 2 tasks" in state for state in states)
    assert shown(is_terminal=False) == ""
    asked.set()
    monkeypatch.setenv(environment.PROGRESS_VARIABLE, "off")
    console = Console(file=io.StringIO(), force_terminal=True)
    with progress.described(spark, "upsert a.x", console):
        pass
    monkeypatch.delenv(environment.PROGRESS_VARIABLE)
    with progress.shown_by_caller():
        # A second caller, as another ingest in this process, does not wait for the first.
        with progress.shown_by_caller():
            pass
        with progress.described(spark, "upsert a.x", console):
            pass
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_the_files_that_tasks_have_begun_are_counted_by_their_markers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "_LISTING_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LISTING_PAUSES", 0)
    token, time = write_token(0, 1, 2), "20260101000000000"
    markers: list[Marker] = []
    listings: list[int] = []

    def listed() -> list[Marker]:
        listings.append(len(markers))
        return markers

    files = progress.MarkedFiles(listed)
    assert files.text() is None
    markers.append(Marker("day=1", base_file_name("a-0", token, time), MarkerKind.MERGE))
    assert files.text() == "1 file begun in 1 file group"
    markers.append(Marker("day=1", base_file_name("a-0", write_token(0, 1, 3), time), MarkerKind.MERGE))
    markers.append(Marker("day=2", log_file_name("b-0", token, time), MarkerKind.APPEND))
    assert files.text() == "3 files begun in 2 file groups"
    monkeypatch.setattr(progress, "_LISTING_SECONDS", 60.0)
    files.text()
    markers.clear()
    assert files.text() == "3 files begun in 2 file groups"
    assert listings == [0, 1, 3, 3]


def test_jobs_name_the_step_of_a_write_and_the_line_its_files(
    spark: SparkSession, new_table: Callable[..., SparkTable], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_LISTING_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LISTING_PAUSES", 0)
    file = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=file, force_terminal=True, width=200, height=10)
    )
    table = new_table(priced(spark, 1), "id", index="simple")
    table.insert(priced(spark, 1))
    table.upsert(priced(spark, 2))

    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    # Jobs of other tests may have no description.
    described = {str(jobs.apply(index).description().toString()) for index in range(jobs.size())}
    for step in ("look up the keys of 64 rows in 1 file group", "write 1 file group"):
        assert f"Some(upsert {table.name}: {step})" in described
    assert "1 file begun in 1 file group" in file.getvalue()
