"""The Python process of the SQL catalog: no request waits for others, and a statement can be aborted early."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake_model.vocabulary import State
from chronolake_spark import SparkTable, errors
from chronolake_spark.catalogs import operations, process, registering, statements
from chronolake_spark.catalogs.context import CatalogContext

_REQUESTS = 60


class Ended(Exception):
    """The process would have ended here."""


def test_each_request_is_answered_while_all_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write waits for the scans that Spark plans for its frame: a bounded pool would hang."""
    together = threading.Barrier(_REQUESTS, timeout=30)
    answered = threading.Semaphore(0)
    answers = io.StringIO()

    def run(request: dict[str, Any], _: object) -> int:
        together.wait()
        answered.release()
        return int(request["number"])

    def exit_when_answered(_: int) -> None:
        assert all(answered.acquire(timeout=30) for _ in range(_REQUESTS))
        raise Ended

    lines = [json.dumps({"port": 1, "secret": "s"}), *(json.dumps({"number": n}) for n in range(_REQUESTS))]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    monkeypatch.setattr(process, "_own_output", lambda: answers)
    monkeypatch.setattr(process, "Sessions", lambda port, secret: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(registering, "refuse_another_jar", lambda _: None)
    monkeypatch.setattr(operations, "run", run)
    monkeypatch.setattr(os, "_exit", exit_when_answered)
    with pytest.raises(Ended):
        process.main()


@pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK")
def test_the_jar_of_another_release_is_refused_in_one_line() -> None:
    answer = process._answered({"operation": "namespaces"}, None, "of another release")  # type: ignore[arg-type]
    assert "the jar of the catalog is of another release" in answer["refusal"]["message"]
    assert str(registering.JAR) in answer["refusal"]["message"]


@pytest.mark.spark
def test_sessions_that_are_used_no_more_are_forgotten(
    lake: SparkSession, client: chronolake.Client, new_table: Callable[..., SparkTable]
) -> None:
    """In the JVM: each object that Python can reach is kept there."""
    table = new_table(lake.range(0), "id", buckets=1)
    classic = lake._jvm.org.apache.spark.sql.classic.SparkSession
    classic.clearDefaultSession()
    lake.sql(f"DELETE FROM lake.{table.name}")
    classic.setDefaultSession(lake._jsparkSession)
    process_class = lake._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    running = process_class.loadClass("chronolake.spark.PythonProcess").getDeclaredField("running")
    running.setAccessible(True)
    sessions = running.get(None).getClass().getDeclaredField("sessions")
    sessions.setAccessible(True)
    known = sessions.get(running.get(None))
    for _ in range(110):
        other = lake.newSession()
        other._jsparkSession.catalog().currentCatalog()
        for name in ("", ".url"):
            other.conf.set(f"spark.sql.catalog.lake{name}", lake.conf.get(f"spark.sql.catalog.lake{name}"))
        other.sql("SHOW NAMESPACES IN lake")
    assert known.size() == 100
    lake.sql("SHOW NAMESPACES IN lake").collect()

    # PySpark makes functions in the session that last made a frame, or the first that the process has known.
    rows = lake.sql("SELECT '7' AS id")
    rows.write.format("chronolake").options(table=table.name, url=client.url).mode("append").save()
    assert table.read().collect() == [(7,)]


@pytest.mark.spark
def test_a_statement_that_is_aborted_while_it_begins_ends(
    spark: Any, client: chronolake.Client, new_table: Callable[..., SparkTable]
) -> None:
    table = new_table(spark.range(1), "id", buckets=1)
    context = CatalogContext(client, spark, SimpleNamespace())  # type: ignore[arg-type]  # it asks for no frame
    statements.abort(context, statements.AbortStatement(table.name, "stopped"))
    with pytest.raises(errors.ServiceStopped):
        begun = statements.BeginStatement(table.name, "stopped", table.definition.schema_version, "DELETE")
        statements.begin(context, begun)
    states = [instant.state for instant in table.metastore.instants(state=list(State))]
    assert sorted(states) == [State.COMPLETED, State.ROLLED_BACK]  # The rollback, and what it rolled back.
