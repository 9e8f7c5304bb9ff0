"""Hudi's Spark bundle as a process: one JSON document a line in, one out. It runs in an environment of its own.

``python spark_session.py <bundle.jar> <jar of S3> …``. Requests: ``{"read": path, "where": "id = 1", "options":
{…}}`` gives rows, ``{"write": path, "rows": […], "columns": "id bigint, …", "options": {…}}`` writes,
``{"sql": text}`` gives rows, ``{"hadoop": {…}}`` sets options of Hadoop's file systems. ``{"filter": text,
"type": "SIMPLE", "keys": […]}`` gives for each key whether it may be in the bloom filter.
An error is answered as ``{"error": text}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import make_tables  # type: ignore[import-not-found]  # beside this file, in the folder of the script
from pyspark.sql import SparkSession


def main() -> None:
    """Answer requests until the input ends."""
    # What Java and Hudi print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jar, *others = map(Path, sys.argv[1:])
    spark = make_tables.session(jar, others)
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        try:
            answer: Any = _answer(spark, json.loads(line))
        except Exception as exc:  # the edge of the process
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
    spark.stop()


def _answer(spark: SparkSession, request: dict[str, Any]) -> Any:
    options = request.get("options", {})
    if "sql" in request:
        return [row.asDict() for row in spark.sql(request["sql"]).collect()]
    if "hadoop" in request:
        for name, value in request["hadoop"].items():
            spark.sparkContext._jsc.hadoopConfiguration().set(name, value)
        return []
    if "filter" in request:
        factory = spark._jvm.org.apache.hudi.common.bloom.BloomFilterFactory
        filter_ = factory.fromString(request["filter"], request["type"])
        return [{"may_have": filter_.mightContain(key)} for key in request["keys"]]
    if "read" in request:
        frame = spark.read.format("hudi").options(**options).load(request["read"]).where(request["where"])
        return [row.asDict() for row in frame.collect()]
    frame = spark.createDataFrame([tuple(row) for row in request["rows"]], request["columns"]).coalesce(1)
    frame.write.format("hudi").options(**options).mode("append").save(request["write"])
    return []


if __name__ == "__main__":
    main()
