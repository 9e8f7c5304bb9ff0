"""One Spark session for the whole run: starting one takes as long as most tests together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import chronolake_spark

# The client compiler alone and one collector thread: what a JVM that lives for minutes on two cores wants.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores."""
    session = chronolake_spark.session(
        "tests",
        master="local[2]",
        memory="1g",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraJavaOptions": _JVM,
            "spark.log.level": "ERROR",
        },
    )
    yield session
    session.stop()
