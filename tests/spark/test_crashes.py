"""Tasks, committers and drivers are killed during writes and INSERT statements, at each point."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import Instant, State
from chronolake.errors import InstantRolledBack
from chronolake_model.vocabulary import Action
from chronolake_spark import SparkTable
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.processes import wait_until
from tests.spark import crashes, faults, hudi_reader
from tests.spark.driver import Driver, Job
from tests.spark.prices import BUCKETS, IDS, SETTINGS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark
slow = pytest.mark.slow
_NUMBERS = itertools.count(1)
MERGE_ON_READ = {"type": "merge_on_read"}
UNIQUE = {"index": "record"}
KINDS: dict[str, dict[str, Any]] = {
    "log": MERGE_ON_READ,
    "unique": UNIQUE,
    "unique_log": MERGE_ON_READ | UNIQUE,
    "bloom": {"index": "bloom"},
    "bloom_log": MERGE_ON_READ | {"index": "bloom"},
}
CASES = [
    *(("log", point) for point in (*crashes.TASK_POINTS, *crashes.COMMIT_POINTS)),
    *(
        (kind, point)
        for kind in ("unique", "unique_log", "bloom", "bloom_log")
        for point in ("task:after_marker", "task:in_file", "commit:before_complete", "commit:after_complete")
    ),
]
QUICK = ("log", "task:in_file")
KILLED = [
    ("log", "task:in_file"),
    ("log", "commit:before_complete"),
    ("log", "commit:after_complete"),
]


@pytest.fixture
def new_prices(
    spark: SparkSession, reaping: ServerProcess, tmp_path: Path
) -> Iterator[Callable[..., SparkTable]]:
    """Makes a table with one commit, in which each record has the price 1."""
    with chronolake.connect(reaping.url) as client:
        client.create_namespace("shop")

        def make(**definition: Any) -> SparkTable:
            name = f"shop.prices{next(_NUMBERS)}"
            chronolake_spark.create_table(
                client,
                name,
                priced(spark, 1).schema,
                base_path=str(tmp_path / name),
                record_key_fields=["id"],
                buckets=None if "index" in definition else BUCKETS,
                **definition,
            )
            table = chronolake_spark.table(spark, name, client=client)
            table.insert(priced(spark, 1))
            return table

        yield make


@pytest.fixture
def crash_at(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    yield lambda point: crashes.register(spark, point, crashes.die)
    crashes.unregister(spark)


def assert_all_files_are_marked(table: SparkTable, instant: Instant) -> None:
    """Each data file of the instant in storage has a marker."""
    root = Path(table.definition.base_path)
    time = instant.requested_time
    files = {str(path.relative_to(root)) for path in root.rglob(f"*_{time}*") if ".hoodie" not in path.parts}
    assert files <= {marker.path for marker in table.metastore.markers(time)}


def assert_healed(spark: SparkSession, table: SparkTable, price: int, dsn: str) -> None:
    """All records have this price, the next write works, and no file is left."""
    assert rows_of(table) == [(id, price) for id in IDS]
    hudi_reader.publish_and_compare(table.metastore)
    table.upsert(priced(spark, 3).where("id < 32"))

    assert rows_of(table) == [(id, 3 if id < 32 else price) for id in IDS]
    hudi_reader.publish_and_compare(table.metastore)
    assert orphans_of(table) == []
    assert list(table.metastore.timeline.rollbacks().pending()) == []
    verified = run("verify", "--dsn", dsn)
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.parametrize(
    ("kind", "point"), [pytest.param(*case, marks=[] if case == QUICK else slow) for case in CASES]
)
def test_a_killed_task_or_committer_leaves_nothing(
    spark: SparkSession,
    new_prices: Callable[..., SparkTable],
    crash_at: Callable[[str], None],
    reaping: ServerProcess,
    kind: str,
    point: str,
) -> None:
    table = new_prices(**KINDS[kind])
    crash_at(point)
    try:
        table.upsert(priced(spark, 2))
    except Exception:  # of Spark, or of ours
        assert point.startswith("commit"), "Spark repeats tasks"
    crashes.unregister(spark)
    assert (faults.signals(table.definition.base_path) / "killed").exists()

    # A committer is not repeated: Spark rolls the write back, unless it has completed.
    is_lost = point.startswith("commit") and point != "commit:after_complete"
    newest = table.metastore.timeline.where(action=[Action.COMMIT, Action.DELTACOMMIT]).last()
    assert newest is not None
    assert newest.state is (State.ROLLED_BACK if is_lost else State.COMPLETED)
    assert_healed(spark, table, 1 if is_lost else 2, reaping.dsn)


@slow
@pytest.mark.parametrize("kind", ["unique", "unique_log"])
@pytest.mark.parametrize("command", ["INTO", "OVERWRITE"])
@pytest.mark.parametrize("point", ["task:in_file", "commit:before_complete"])
def test_a_statement_whose_driver_was_killed_is_repeated_exactly(
    spark: SparkSession,
    new_prices: Callable[..., SparkTable],
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
    kind: str,
    command: str,
    point: str,
) -> None:
    table = new_prices(**KINDS[kind])
    # Half of the keys are new.
    first, end = len(IDS) // 2, 2 * len(IDS)
    how = "WITH (operation = 'upsert')" if command == "INTO" else ""
    statement = f"INSERT {command} {{}}.{table.name} {how} SELECT id, 2 AS price FROM range({first}, {end})"
    job = Job(
        reaping.url,
        table.name,
        0,
        "stand_still",
        settings=SETTINGS,
        crash_point=point,
        statement=statement.format("lake"),
    )
    reached = faults.signals(table.definition.base_path) / "reached"
    with Driver(job, tmp_path / "driver.log", repository) as driver:
        wait_until(lambda: driver.runs() and reached.exists())
        driver.kill()
    killed = table.metastore.timeline.last()
    assert killed is not None
    assert killed.state is State.INFLIGHT
    assert rows_of(table) == [(id, 1) for id in IDS]

    # The statement is repeated before the lease of the killed one ends.
    catalog = f"again_{next(_NUMBERS)}"
    chronolake_spark.catalog(spark, catalog, reaping.url)
    spark.sql(statement.format(catalog))
    kept = [] if command == "OVERWRITE" else [(id, 1) for id in range(first)]
    expected = [*kept, *((id, 2) for id in range(first, end))]
    assert rows_of(table) == expected

    with contextlib.suppress(InstantRolledBack):  # A slow machine needs longer than the lease.
        table.metastore.write(killed.requested_time).heartbeat(1)
    wait_until(lambda: table.metastore.instant(killed.requested_time).state is State.ROLLED_BACK)
    table.metastore.finish_rollbacks()
    assert orphans_of(table) == []
    assert rows_of(table) == expected
    table.upsert(priced(spark, 3))
    assert rows_of(table) == [(id, 3) for id in IDS] + [(id, 2) for id in range(len(IDS), end)]
    assert table.metastore.check().findings == []


@slow
@pytest.mark.parametrize(("kind", "point"), KILLED)
def test_a_killed_driver_leaves_what_the_end_of_its_lease_cleans_up(
    spark: SparkSession,
    new_prices: Callable[..., SparkTable],
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
    kind: str,
    point: str,
) -> None:
    table = new_prices(**KINDS[kind])
    job = Job(reaping.url, table.name, len(IDS), "stand_still", settings=SETTINGS, crash_point=point)
    reached = faults.signals(table.definition.base_path) / "reached"
    with Driver(job, tmp_path / "driver.log", repository) as driver:
        wait_until(lambda: driver.runs() and reached.exists())
        driver.kill()

    instant = table.metastore.timeline.last()
    assert instant is not None
    price = 2
    if point != "commit:after_complete":
        price = 1
        assert instant.state is State.INFLIGHT
        assert_all_files_are_marked(table, instant)
        # Its lease is not renewed any more: let it end in a second.
        table.metastore.write(instant.requested_time).heartbeat(1)
        wait_until(lambda: table.metastore.instant(instant.requested_time).state is State.ROLLED_BACK)
    assert_healed(spark, table, price, reaping.dsn)
