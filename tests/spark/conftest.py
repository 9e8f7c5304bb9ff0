"""One Spark session for the whole run: starting one takes as long as most tests together."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from chronolake.cli import main as command_line
from chronolake.errors import TableNotFound
from chronolake.ingest.arrow_engine import ArrowEngine
from chronolake.ingest.job import IngestEngine, IngestJob
from chronolake.ingest.request import IngestRequest
from chronolake_spark import SparkTable
from chronolake_spark.ingest.spark_engine import SparkEngine
from chronolake_spark.write import shuffles
from tests.fix_server import ServerProcess
from tests.spark import hudi_reader
from tests.spark.prices import BUCKETS, Ingest, priced

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores, which gives each task four attempts, as clusters do."""
    session = chronolake_spark.session(
        "tests",
        master="local[2,4]",
        memory="1g",
        settings={
            "spark.sql.shuffle.partitions": "4",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
        },
    )
    # Small as they are, the writes of tests have several tasks.
    shuffles.SMALL_BYTES = 0
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def leave_nothing_persisted() -> Iterator[None]:
    """Fails in the module that leaves a persisted frame, not in a later module that counts them."""
    yield
    context = SparkContext._active_spark_context
    if context is not None:
        assert [rdd.toString() for rdd in context._jsc.getPersistentRDDs().values()] == []


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    """A client of a running server, which has the namespace ``spark``."""
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("spark", if_not_exists=True)
        yield client


@pytest.fixture(scope="module")
def lake(spark: SparkSession, client: chronolake.Client) -> Iterator[SparkSession]:
    """The session with the tables of the module's server as the catalog ``lake`` of SQL."""
    chronolake_spark.catalog(spark, "lake", client.url)
    yield spark
    spark.conf.unset("spark.sql.catalog.lake")
    spark.conf.unset("spark.sql.catalog.lake.url")
    # A session keeps the catalogs that it has loaded, and the next module has another server.
    spark._jsparkSession.sessionState().catalogManager().reset()


@pytest.fixture(scope="module")
def new_table(
    spark: SparkSession, client: chronolake.Client, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., SparkTable]:
    """Makes a table for a frame, published after each write; keywords go to ``create_table``."""

    def make(frame: DataFrame, key: str, *, base_path: str | None = None, **definition: Any) -> SparkTable:
        name = f"spark.t{next(_NUMBERS)}"
        chronolake_spark.create_table(
            client,
            name,
            frame.schema,
            base_path=base_path or str(tmp_path_factory.mktemp("tables") / name),
            record_key_fields=key.split(","),
            **definition,
        )
        return hudi_reader.PublishedTable(spark, client, client.table(name))

    return make


@pytest.fixture
def reaping(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server that rolls back at once instants whose lease has ended."""
    return new_server(dsn, "--reaper-seconds", "0.1")


@pytest.fixture
def prices(spark: SparkSession, reaping: ServerProcess, tmp_path: Path) -> Iterator[SparkTable]:
    """A table at that server with one commit: each record has the price 1."""
    frame = priced(spark, 1)
    with chronolake.connect(reaping.url) as client:
        client.create_namespace("shop")
        path = str(tmp_path / "prices")
        chronolake_spark.create_table(
            client, "shop.prices", frame.schema, base_path=path, record_key_fields=["id"], buckets=BUCKETS
        )
        table = chronolake_spark.table(spark, "shop.prices", client=client)
        table.insert(frame)
        yield table


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A table of the test's own, in a namespace that ingest makes."""
    return f"ingest.{re.sub(r'[^a-z_]', '_', request.node.name)}"


@pytest.fixture(params=["arrow", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of ``chronolake ingest``. Both keep the same promises; ``BOTH_ENGINES`` tests both soon."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture
def job_of(
    engine: str, client: chronolake.Client, request: pytest.FixtureRequest
) -> Callable[[IngestRequest], IngestJob]:
    """Makes the job of a request."""
    of_engine: IngestEngine = ArrowEngine()
    if engine == "spark":
        of_engine = SparkEngine(request.getfixturevalue("spark"), client)
    return lambda wanted: IngestJob(client, of_engine, wanted)


@pytest.fixture
def run(shared_server_url: str, tmp_path: Path, name: str, engine: str) -> Callable[..., int]:
    """Runs ``chronolake ingest`` on the test's folder ``in``; returns the exit code."""

    def run(*options: str) -> int:
        source = [] if "--source" in options else ["--source", str(tmp_path / "in")]
        common = ["--url", shared_server_url, "--json", "--base-path", str(tmp_path / "table")]
        common += [] if "--engine" in options else ["--engine", engine]
        return command_line.run(["ingest", "--table", name, *source, *common, *options])

    (tmp_path / "in").mkdir()
    return run


@pytest.fixture
def ingest(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], client: chronolake.Client, name: str
) -> Ingest:
    """Runs ``chronolake ingest``, which must succeed; returns its result. Then hudi-rs reads the table."""

    def ingest(*options: str) -> dict[str, Any]:
        code = run(*options)
        shown = capsys.readouterr()
        assert code == 0, shown.err
        result: dict[str, Any] = json.loads(shown.out)
        # A preview makes no table.
        with contextlib.suppress(TableNotFound):
            hudi_reader.publish_and_compare(client.table(name))
        return result

    return ingest


@pytest.fixture
def table(client: chronolake.Client, name: str) -> Callable[[], chronolake.Table]:
    """The table, once there is one."""
    return lambda: client.table(name)
