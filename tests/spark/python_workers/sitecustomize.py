"""Make Spark's Python workers start quickly; Python imports this module at its start, if it is on its path.

PySpark's daemon forks a worker for each task that finds none idle. Each worker imports PyArrow, pandas and
Chronolake again. Each task also invalidates the import caches; Python 3.11 then reads the directories of
PySpark's zip file and of Spark's jar again, once for each package in them. Both together cost up to a second of
CPU time for each task. Therefore the daemon imports these modules once, and PySpark from its installed files.
"""

from __future__ import annotations

import importlib
import sys

# Spark's own daemon starts the workers that plan; that of Chronolake starts those of tasks.
if not {"pyspark.daemon", "pyspark_chronolake.daemon"}.isdisjoint(sys.orig_argv):
    sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for name in (
        "chronolake_spark.read.frames",
        "chronolake_spark.write.data_source",
        "pandas",
        "pyspark.worker",
    ):
        importlib.import_module(name)
