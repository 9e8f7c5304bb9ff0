"""A fault of the Python processes of a statement; Python imports this module at its start, if it finds it."""

from __future__ import annotations

import importlib
import sys

if {"pyspark.daemon", "pyspark_chronolake.daemon", "chronolake_spark.catalogs.process"} & set(sys.orig_argv):
    importlib.import_module("tests.spark.statement_faults").patch()
