"""Each private part of PySpark and Spark that the product relies on is there, and means what it must."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyspark import SparkConf, SparkContext, daemon
from pyspark.errors.exceptions import base
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.datasource import DataSource
from typing_extensions import override

from chronolake_spark.driver import spark_internals as internals
from tests.processes import wait_until

NAMES = ("_jvm", "_jsparkSession", "_jdf", "_jreader", "_jwrite", "_jsc", "_jc", "_gateway")
"""The private names of PySpark."""


class Nothing(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """A data source without rows."""

    @classmethod
    @override
    def name(cls) -> str:
        return "nothing"

    @override
    def schema(self) -> str:
        return "id long"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(3)


@pytest.mark.spark
def test_the_session_has_an_id_and_can_be_made_the_active_one(spark: SparkSession):
    assert internals.gateway() is not None
    assert internals.session_id(spark) != internals.session_id(spark.newSession())
    other = spark.newSession()
    with internals.activated(other):
        assert _active_id(spark) == internals.session_id(other)
    internals.activate(spark)
    assert _active_id(spark) == internals.session_id(spark)


def _active_id(spark: SparkSession) -> str:
    sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    return str(sessions.getActiveSession().get().sessionUUID())


def test_a_process_can_attach_to_a_running_application() -> None:
    """The tests of the SQL catalog have such a process."""
    assert hasattr(SparkContext, "_active_spark_context")
    assert {"gateway", "jsc"} <= set(inspect.signature(SparkContext).parameters)
    assert {"_jvm", "_jconf"} <= set(inspect.signature(SparkConf).parameters)
    assert "_gateway_client" in vars(JavaGateway(gateway_parameters=GatewayParameters(eager_load=False)))


@pytest.mark.spark
def test_spark_tells_the_state_of_jobs_and_stages(spark: SparkSession):
    tracker, stages = internals.trackers(spark)
    spark.sparkContext.addJobTag("internals")
    spark.range(10, numPartitions=2).count()
    spark.sparkContext.removeJobTag("internals")
    # The first job reads the rows, and a second one counts them; the ids have no order.
    job = min(tracker.getJobIdsForTag("internals"))
    stage = min(tracker.getJobInfo(job).get().stageIds())
    # Spark collects the metrics of tasks after the job has ended.
    wait_until(lambda: stages.lastStageAttempt(stage).inputRecords() == 10)
    attempt = stages.lastStageAttempt(stage)
    assert attempt.numCompleteTasks() == attempt.numTasks()
    assert attempt.shuffleReadRecords() >= 0
    assert list(tracker.getActiveStageIds()) == []


@pytest.mark.spark
def test_spark_tells_when_it_planned_a_batch(spark: SparkSession, tmp_path: Path):
    planned: list[int] = []
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(
        lambda batch, number: planned.append(internals.planned_ms(spark, query_id(batch), number))
    )

    def query_id(batch: DataFrame) -> str:
        return str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))

    query = writer.trigger(availableNow=True).start()
    query.processAllAvailable()
    query.stop()
    assert planned[0] > 1_700_000_000_000


@pytest.mark.spark
def test_a_logger_of_the_jvm_is_silent_for_a_while(spark: SparkSession):
    manager = getattr(spark._jvm, "org.apache.logging.log4j.LogManager")
    with internals.unlogged(spark, "chronolake.internals"):
        assert str(manager.getLogger("chronolake.internals").getLevel()) == "OFF"
    assert str(manager.getLogger("chronolake.internals").getLevel()) == "ERROR"


@pytest.mark.spark
def test_plans_have_their_stages_patterns_leaves_and_sizes(spark: SparkSession, frame: DataFrame):
    doubled = frame.select(internals.expression(spark, "id * 2 AS twice"))
    assert doubled.columns == ["twice"]
    plan = internals.analyzed(doubled)
    assert plan.sameResult(internals.analyzed(frame.select((sf.col("id") * 2).alias("twice"))))
    assert internals.optimized(frame.where("1 = 1")).sameResult(internals.optimized(frame))
    assert [str(leaf.nodeName()) for leaf in internals.leaves(plan)] == ["Range"]
    assert internals.size_bytes(internals.with_cached_data(frame)) == 24
    cached = spark.range(5).cache()
    leaves = internals.leaves(internals.with_cached_data(cached))
    assert [str(leaf.nodeName()) for leaf in leaves] == ["InMemoryRelation"]
    cached.unpersist()
    subquery = spark.sql("SELECT (SELECT max(id) FROM range(2)) AS most")
    assert internals.has_pattern(subquery, internals.analyzed(subquery), "PLAN_EXPRESSION")
    in_python = frame.select(sf.udf(lambda value: value, "long")("id"))
    assert internals.has_pattern(in_python, internals.analyzed(in_python), "PYTHON_UDF")
    assert not internals.has_pattern(frame, internals.analyzed(frame), "PYTHON_UDF")


@pytest.mark.spark
def test_readers_and_writers_have_their_arguments(spark: SparkSession, frame: DataFrame):
    reader = spark.read.format("Chronolake").option("Table", "a.b").schema("x long, y long")
    assert internals.source(reader).lower() == "chronolake"
    assert internals.options(reader, "p") == {"table": "a.b", "path": "p"}
    assert internals.columns(reader) == ["x", "y"]
    assert internals.columns(spark.read) is None
    assert internals.session_of(reader) is spark
    writer = frame.write.format("chronolake").option("Table", "a.b").mode("overwrite")
    assert (internals.source(writer), internals.options(writer)) == ("chronolake", {"table": "a.b"})
    assert internals.save_mode(writer).lower() == "overwrite"
    assert internals.frame_of(writer) is frame
    assert internals.session_of(writer) is spark
    assert not internals.is_partitioned(writer)
    assert internals.is_partitioned(writer.partitionBy("id"))


@pytest.mark.spark
def test_readers_and_writers_of_streams_have_their_arguments(spark: SparkSession):
    reader = spark.readStream.format("rate").option("rowsPerSecond", 1)
    assert (internals.source(reader), internals.options(reader)) == ("rate", {"rowspersecond": "1"})
    rows = reader.load()
    writer = rows.writeStream.format("chronolake").option("Table", "a.b").outputMode("Update")
    assert (internals.source(writer), internals.options(writer, "p")) == (
        "chronolake",
        {"table": "a.b", "path": "p"},
    )
    assert internals.output_mode(writer) == "update"
    assert internals.trigger(writer.trigger(continuous="1 second")) == "ContinuousTrigger"
    assert internals.frame_of(writer) is rows
    assert not internals.is_partitioned(writer)
    assert internals.is_partitioned(writer.clusterBy("value"))


@pytest.mark.spark
def test_statements_are_parsed_and_their_queries_are_frames(spark: SparkSession, frame: DataFrame):
    with internals.formatted(
        spark, "INSERT OVERWRITE v (a) SELECT id + {n} FROM {frame}", {"n": 1, "frame": frame}
    ) as text:
        insert = internals.parsed(spark, text)
        given = internals.arguments(insert)
        assert sorted(row[0] for row in internals.rows_of(spark, given["query"], None).collect()) == [1, 2, 3]
    assert insert.nodeName() == "InsertIntoStatement"
    assert given["partitionSpec"].isEmpty()
    assert internals.items(given["userSpecifiedCols"]) == ["a"]
    assert (given["overwrite"], given["byName"]) == (True, False)
    assert given["table"].multipartIdentifier().head() == "v"
    plan = internals.parsed(spark, "WITH x AS (SELECT :n n) INSERT INTO v WITH (a = 'b') SELECT n FROM x")
    inner = internals.arguments(plan.child())
    assert internals.java_options(inner["table"]) == {"a": "b"}
    query = internals.with_child(spark, plan, inner["query"])
    assert [row.n for row in internals.rows_of(spark, query, {"n": 7}).collect()] == [7]
    by_position = internals.parsed(spark, "INSERT INTO v VALUES (?, ?)")
    [row] = internals.rows_of(spark, internals.arguments(by_position)["query"], [1, "x"]).collect()
    assert tuple(row) == (1, "x")


@pytest.mark.spark
def test_the_commands_that_are_refused_have_their_parts(spark: SparkSession):
    for text, node, part in (
        ("DELETE FROM v", "DeleteFromTable", "table"),
        ("UPDATE v SET a = 1", "UpdateTable", "table"),
        ("MERGE INTO v USING s ON v.a = s.a WHEN MATCHED THEN DELETE", "MergeIntoTable", "targetTable"),
    ):
        plan = internals.parsed(spark, text)
        assert plan.nodeName() == node
        assert getattr(plan, part)().multipartIdentifier().head() == "v"
    for text in ("CREATE TABLE t (a int) USING x", "CREATE OR REPLACE TABLE t USING x AS SELECT 1"):
        assert internals.parsed(spark, text).tableSpec().provider().get() == "x"


@pytest.mark.spark
def test_only_a_view_of_a_data_source_has_its_options(spark: SparkSession, frame: DataFrame):
    frame.createOrReplaceTempView("internals_range")
    assert internals.source_options(spark, "internals_range", "chronolake") is None
    spark.dataSource.register(Nothing)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW internals_nothing USING nothing OPTIONS (table 'a.b')")
    assert internals.source_options(spark, "internals_nothing", "nothing") == {"table": "a.b"}
    assert internals.source_options(spark, "internals_nothing", "chronolake") is None
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW internals_some AS SELECT * FROM internals_nothing")
    assert internals.source_options(spark, "internals_some", "nothing") is None


def test_pyspark_logs_failed_queries_by_these_names() -> None:
    assert base.__file__ is not None
    source = Path(base.__file__).read_text()
    assert all(f'PySparkLogger.getLogger("{name}")' in source for name in internals.QUERY_LOGGERS)


def test_the_daemon_of_pyspark_has_what_ours_replaces() -> None:
    assert callable(daemon.worker)
    assert callable(daemon.manager)
    assert hasattr(daemon, "traceback")


def test_no_other_module_names_a_private_part_of_pyspark(repository: Path) -> None:
    root = repository / "spark_integration"
    naming = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if any(f".{name}" in file.read_text() for name in NAMES)
    }
    assert naming == {"chronolake_spark/driver/spark_internals.py"}


def test_only_install_replaces_methods() -> None:
    program = (
        "import chronolake_spark, pyspark.sql as s\n"
        "load, sql = s.DataFrameReader.load, s.SparkSession.sql\n"
        "chronolake_spark.table, chronolake_spark.views\n"
        "print(load is s.DataFrameReader.load, sql is s.SparkSession.sql)\n"
        "chronolake_spark.install()\n"
        "replaced = s.DataFrameReader.load\n"
        "chronolake_spark.install()\n"
        "print(replaced.__wrapped__ is load, replaced is s.DataFrameReader.load)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "True True\nTrue True\n"


def test_views_without_install_say_to_call_it() -> None:
    program = "import chronolake_spark; chronolake_spark.views(None, 'shop')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "call chronolake_spark.install() before" in ended.stderr.splitlines()[-1]


@pytest.mark.spark
def test_a_local_session_reports_errors_only() -> None:
    program = (
        "import chronolake_spark\nspark = chronolake_spark.session(master='local[1]')\nspark.range(3).count()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = [line for line in ended.stderr.splitlines() if "incubator modules" not in line]
    assert lines == []
