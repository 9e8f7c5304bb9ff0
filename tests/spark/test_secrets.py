"""Spark shows no secret of storage where others see its work: in plans, events, progress and errors."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from chronolake.errors import ChronolakeError
from chronolake_spark.catalogs import registering
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json
from tests import fix_secrets
from tests.fix_s3 import KEYS, S3
from tests.fix_secrets import STORAGE_SECRET

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

SECRETS: Final = {name: KEYS[name] for name in ("access_key", "secret_key")}
CATALOG: Final = {
    f"spark.sql.catalog.set{name}": text
    for name, text in {
        "": "chronolake.spark.ChronolakeCatalog",
        ".url": "http://127.0.0.1:1",
        f".{SECRETS_OPTION}": json.dumps(SECRETS),
    }.items()
}


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Ends Spark's event log, which began with the test, and gives its text."""
    context = spark.sparkContext._jsc.sc()
    jvm: Any = spark.sparkContext._jvm
    folder = tmp_path / "events"
    folder.mkdir()
    # What the log hides depends on the configuration of the application, so it is no copy.
    conf = context.conf().set("spark.eventLog.compress", "false")
    place = jvm.java.net.URI(folder.as_uri())
    log = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "application", jvm.scala.Option.empty(), place, conf, context.hadoopConfiguration()
    )
    log.start()
    context.addSparkListener(log)

    def end() -> str:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(log)
        log.stop()
        return "".join(texts_below(folder))

    yield end
    conf.remove("spark.eventLog.compress")
    for key in spark.conf.getAll:
        if key.startswith(("spark.sql.catalog.shown", "spark.sql.catalog.set")):
            spark.conf.unset(key)
            conf.remove(key)
    catalogs(spark).reset()


def texts_below(folder: Path) -> list[str]:
    """The content of the files below a folder; sums of bytes are in some."""
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]


def catalogs(spark: SparkSession) -> Any:
    """The catalogs that the session has loaded."""
    return spark._jsparkSession.sessionState().catalogManager()


def test_the_event_log_hides_the_secrets_of_catalogs(spark: SparkSession, events: Callable[[], str]) -> None:
    chronolake_spark.catalog(spark, "shown", "http://127.0.0.1:1", {SECRETS_OPTION: json.dumps(SECRETS)})
    assert spark.range(3).count() == 3
    for key, text in CATALOG.items():
        spark.conf.set(key, text)
    catalogs(spark).catalog("set")
    assert spark.range(3).count() == 3

    logged = events()

    assert "spark.sql.catalog.shown.storage_secrets" in logged
    assert "spark.sql.catalog.set.storage_secrets" in logged
    fix_secrets.search(logged, "the event log")
    assert spark.conf.get("spark.sql.catalog.shown.storage_secrets") == json.dumps(SECRETS)


def test_a_catalog_of_another_session_has_no_secrets_of_the_first(
    spark: SparkSession, events: Callable[[], str], client: chronolake.Client
) -> None:
    chronolake_spark.catalog(spark, "shown", client.url, {SECRETS_OPTION: json.dumps(SECRETS)})
    other = spark.newSession()
    chronolake_spark.catalog(other, "shown", client.url)

    assert other.sql("SHOW NAMESPACES IN shown").collect()
    assert STORAGE_SECRET not in str(other.conf.getAll)


def plans_of(frame: DataFrame) -> list[str]:
    """The plans of a frame in all forms."""
    jvm: Any = frame.sparkSession._jvm
    execution = frame._jdf.queryExecution()
    modes = jvm.org.apache.spark.sql.execution.ExplainMode
    texts = [
        execution.explainString(modes.fromString(mode))
        for mode in ("simple", "extended", "codegen", "cost", "formatted")
    ]
    trees = [execution.logical(), execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()]
    return texts + [tree.toJSON() for tree in trees]


@pytest.mark.slow
def test_nothing_that_spark_shows_has_a_secret_of_storage(
    spark: SparkSession, shared_server_url: str, s3: S3, tmp_path: Path, events: Callable[[], str]
) -> None:
    where = {f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")}
    rows = spark.createDataFrame([(1, "de"), (2, "fr")], "id long, country string")
    given = {"url": shared_server_url, SECRETS_OPTION: secrets_to_json(SECRETS)}
    orders, copy = ({**given, "table": f"secrets.{name}"} for name in ("orders", "copy"))
    with chronolake.connect(shared_server_url, storage_options=SECRETS) as client:
        client.create_namespace("secrets")
        for name in ("orders", "copy"):
            chronolake_spark.create_table(
                client,
                f"secrets.{name}",
                rows.schema,
                base_path=f"s3://{s3.bucket}/{name}",
                record_key_fields=["id"],
                buckets=2,
                properties=where,
            )
        table = chronolake_spark.table(spark, "secrets.orders", client=client)
        table.upsert(rows)
        shown = [repr(client), repr(table), repr(table.metastore), *plans_of(table.read())]
    rows.write.format("chronolake").options(**orders).mode("append").save()
    shown += plans_of(spark.read.format("chronolake").options(**orders).load())

    chronolake_spark.catalog(spark, "shown", shared_server_url, {SECRETS_OPTION: json.dumps(SECRETS)})
    for statement in (
        "INSERT INTO shown.secrets.orders VALUES (3, 'it')",
        "UPDATE shown.secrets.orders SET country = 'es' WHERE id = 3",
        "SELECT * FROM shown.secrets.orders",
        "DESCRIBE TABLE EXTENDED shown.secrets.orders",
        "SHOW TBLPROPERTIES shown.secrets.orders",
        "SET",
    ):
        ran = spark.sql(statement)
        explained = spark.sql(f"EXPLAIN EXTENDED {statement}")
        shown += [*plans_of(ran), *map(str, ran.collect()), *map(str, explained.collect())]

    changes = spark.readStream.format("chronolake").options(**orders).load().select("id", "country")
    writer = changes.writeStream.format("chronolake").options(**copy).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoints")).start()
    query.awaitTermination()
    assert spark.table("shown.secrets.copy").count() == 3
    shown += [query._jsq.explainInternal(True), *map(str, query.recentProgress)]
    shown += texts_below(tmp_path / "checkpoints")

    with s3.only_sessions(), pytest.raises((ChronolakeError, PySparkException)) as failed:
        spark.sql("INSERT INTO shown.secrets.orders VALUES (4, 'be')")
    shown += ["".join(traceback.format_exception(failed.value))]

    for text in [*shown, events()]:
        fix_secrets.search(text, "what Spark shows")
