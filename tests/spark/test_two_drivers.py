"""Several drivers write one table with a record index at the same time: no key is doubled, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from chronolake import Instant, State
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable
from tests import processes
from tests.spark import hudi_reader, writing_driver
from tests.spark.prices import orphans_of
from tests.spark.writing_driver import SHOPS, Rounds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NewTable = Callable[..., SparkTable]
Records = dict[int, tuple[int, int]]
"""The shop and the price of each id."""
Start = Callable[..., Callable[[], None]]
JOIN_SECONDS_MAX = 900.0
INGEST = "from chronolake.cli.main import main; main()"
FILES = 3


@pytest.fixture
def started(repository: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a program; returns what waits for its end, and fails if it failed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Callable[[], None]:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, *arguments], cwd=repository, stdout=out, stderr=out)
        running.append(process)

        def join() -> None:
            assert process.wait(JOIN_SECONDS_MAX) == 0, log.read_text()

        return join

    yield start
    for process in running:
        processes.kill(process)


def csv_files(folder: Path) -> dict[str, Records]:
    """Files with records that both drivers write, and with new ones; the rows of each."""
    rows = {}
    folder.mkdir()
    for number in range(FILES):
        price = 9_000 + number
        ids = range(100 * number, 100 * number + 400)
        rows[f"{number}.csv"] = {id: ((id + price) % SHOPS, price) for id in ids}
        lines = (f"{id},{shop},{price}\n" for id, (shop, price) in rows[f"{number}.csv"].items())
        (folder / f"{number}.csv").write_text("id,shop,price\n" + "".join(lines))
    return rows


def replayed(instants: list[Instant], jobs: list[Rounds], files: dict[str, Records]) -> Records:
    """The records after these writes, in the order of their completion."""
    records: Records = {}
    of_price = {job.first_price + number: (job, number) for job in jobs for number in range(job.rounds)}
    for instant in sorted(instants, key=lambda each: each.completion_time or ""):
        if "ingest.source" in instant.extra_metadata:
            records |= files[instant.extra_metadata["ingest.source"]]
            continue
        price = int(instant.extra_metadata["prices"])
        job, number = of_price[price]
        first = job.first_id + job.step * number
        rows = {id: ((id + price) % SHOPS, price) for id in range(first, first + job.records)}
        if "inserts" in instant.extra_metadata:
            rows = {id: row for id, row in rows.items() if id % 2 == number % 2 and id not in records}
        records |= rows
    return records


@pytest.mark.parametrize("type_", list(TableType))
def test_drivers_and_an_ingest_write_one_table_at_once(
    spark: SparkSession,
    new_table: NewTable,
    started: Start,
    tmp_path: Path,
    type_: TableType,
) -> None:
    schema = spark.createDataFrame([], "id long, shop long, price long")
    table = new_table(schema, "id", partition_fields=["shop"], index="record", type=type_)
    url = table._client.url
    jobs = [Rounds(url, table.name, 3, first, 90, 300, price) for first, price in ((0, 1_000), (60, 2_000))]
    files = csv_files(tmp_path / "in")
    drivers = [
        started(str(number), "-m", writing_driver.__name__, msgspec.json.encode(job).decode())
        for number, job in enumerate(jobs)
    ]
    source = ("--source", str(tmp_path / "in"), "--one-commit-per-file", "--engine", "spark")
    ingest = started("ingest", "-c", INGEST, "ingest", "--url", url, "--table", table.name, *source)
    for join in (*drivers, ingest):
        join()

    completed = list(table.metastore.instants(state=State.COMPLETED))
    writes = [each for each in completed if {"prices", "ingest.source"} & {*each.extra_metadata}]
    assert len(writes) == sum(2 * job.rounds for job in jobs) + FILES
    expected = replayed(writes, jobs, files)
    rows = sorted((row.id, (row.shop, row.price)) for row in table.read().collect())
    assert rows == sorted(expected.items())
    table.metastore.finish_rollbacks()
    assert orphans_of(table) == []
    assert table.metastore.check().findings == []
    hudi_reader.publish_and_compare(table.metastore)
    assert State.INFLIGHT not in {each.state for each in table.metastore.instants()}
