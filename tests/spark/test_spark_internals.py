"""Each private part of PySpark and Spark that the product relies on is there, and means what it must."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.clientserver import ClientServer
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyspark import SparkConf, SparkContext, daemon
from pyspark.errors.exceptions import base
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake_spark.driver import spark_internals as internals
from tests.processes import wait_until

NAMES = ("_jvm", "_jsparkSession", "_jdf", "_jreader", "_jwrite", "_jsc", "_jc", "_gateway")
"""The private names of PySpark."""


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
    assert {"java_parameters", "python_parameters"} <= set(inspect.signature(ClientServer).parameters)
    assert {"gateway", "jsc"} <= set(inspect.signature(SparkContext).parameters)
    assert {"_jvm", "_jconf"} <= set(inspect.signature(SparkConf).parameters)
    assert "_gateway_client" in vars(JavaGateway(gateway_parameters=GatewayParameters(eager_load=False)))


@pytest.mark.spark
def test_a_thread_takes_local_properties(spark: SparkSession) -> None:
    assert callable(spark.sparkContext._accumulatorServer.handle_error)
    properties = spark._jvm.java.util.Properties()
    properties.setProperty("spark.jobGroup.id", "internals")
    before = spark.sparkContext._jsc.sc().getLocalProperties()
    internals.set_local_properties(spark, properties)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "internals"
    internals.set_local_properties(spark, before)


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


def test_no_method_of_pyspark_is_replaced() -> None:
    program = (
        "import pyspark.sql as s, pyspark.sql.streaming as t\n"
        "owners = [s.SparkSession, s.DataFrameReader, s.DataFrameWriter]\n"
        "owners += [t.DataStreamReader, t.DataStreamWriter]\n"
        "before = [dict(vars(owner)) for owner in owners]\n"
        "import chronolake_spark\n"
        "for name in chronolake_spark.__all__: getattr(chronolake_spark, name)\n"
        "print([dict(vars(owner)) for owner in owners] == before)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "True\n"


@pytest.mark.spark
def test_a_local_session_reports_errors_only() -> None:
    program = (
        "import chronolake_spark\nspark = chronolake_spark.session(master='local[1]')\nspark.range(3).count()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = [line for line in ended.stderr.splitlines() if "incubator modules" not in line]
    assert lines == []
