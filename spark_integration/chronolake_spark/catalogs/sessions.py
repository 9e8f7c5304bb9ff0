"""The sessions of a running Spark application, seen from the catalog's Python process."""

from __future__ import annotations

import threading
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import java_import
from pyspark.sql import DataFrame, SparkSession

from chronolake_spark.driver import spark_internals

_IMPORTS = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)
"""The names that PySpark uses without a package, as in its ``java_gateway``."""


class Sessions:
    """The sessions of the application whose Py4J server listens on this port of the loopback."""

    def __init__(self, port: int, secret: str) -> None:
        # Each thread of this process has a thread of Java, whose local properties its jobs have.
        self._java = ClientServer(
            java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        for name in _IMPORTS:
            java_import(self._java.jvm, name)
        self._lock = threading.Lock()
        self._sessions: dict[str, SparkSession] = {}

    def session(self, name: str) -> SparkSession:
        """The session that Java calls so."""
        with self._lock:
            if name not in self._sessions:
                self._sessions[name] = spark_internals.attached(self._java, self._object(name))
            return self._sessions[name]

    def forget(self, name: str) -> None:
        """Let go of a session that Java has let go of."""
        with self._lock:
            if (session := self._sessions.pop(name, None)) is not None:
                spark_internals.let_go(session)

    def take_properties(self, name: str, session: SparkSession) -> None:
        """Give the jobs of this thread the local properties that Java calls so: their group, tags and pool."""
        spark_internals.set_local_properties(session, self._object(name))

    def frame(self, name: str, session: SparkSession) -> DataFrame:
        """The frame that Java calls so."""
        return DataFrame(self._object(name), session)

    def _object(self, name: str) -> Any:
        return spark_internals.java_object(self._java, name)
