"""Makes ``format("chronolake")`` known to every Spark session whose Python has Chronolake installed.

PySpark imports all top-level modules that are called ``pyspark_*`` and registers their ``DefaultSource``. If
one of them cannot be imported, PySpark silently registers none. Therefore this module imports nothing but
PySpark's data source, and the rest when the format is used.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """The data source ``chronolake``; docs/spark.md has its options."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._view: Any = None
        """The table as it was when the frame or the view was made; Spark pickles it with this object."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()`` and ``USING``."""
        return "chronolake"

    def schema(self) -> str:
        """The table's columns, as Spark DDL."""
        from chronolake_spark.read import format_reader  # noqa: PLC0415

        self._view = format_reader.view_of(self.options)
        return str(self._view.ddl)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of one query."""
        if "plan" in self.options:
            from chronolake_spark.catalogs import scans  # noqa: PLC0415

            return scans.PlannedReader(self.options)
        from chronolake_spark.read import format_reader  # noqa: PLC0415

        return format_reader.reader(self.options, self._view, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of changed rows of the SQL catalog. Raises ``InvalidOption`` for all other writes."""
        if "staging" in self.options:
            from chronolake_spark.write import staged_changes  # noqa: PLC0415

            return staged_changes.StagingWriter(self.options)
        raise _no_writer("chronolake_spark.table(spark, 'namespace.table').upsert(df)")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of one query that follows the changes."""
        from chronolake_spark.stream import reader as stream_reader  # noqa: PLC0415

        return stream_reader.StreamReader(self.options, self._view, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raises ``InvalidOption``."""
        raise _no_writer("df.writeStream.foreachBatch(chronolake_spark.writer('namespace.table'))")


def _no_writer(instead: str) -> Exception:
    """The error of a write by Python alone, with the call to use instead."""
    from chronolake_spark import errors  # noqa: PLC0415

    return errors.InvalidOption(
        f"Spark cannot shuffle rows for a data source in Python: use {instead}, or give Spark the Java part by "
        "chronolake_spark.catalog(spark, 'lake'), and write as before"
    )


class QuietTraceback:
    """The functions of ``traceback`` that PySpark's daemon calls, without the trace of a broken pipe."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """As that of ``traceback``."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


def leave_out_broken_pipes() -> None:
    """In a worker of PySpark's own daemon, print no trace if Spark has closed the socket before the end.

    Workers that plan data sources have this daemon always: ``spark.python.daemon.module`` is not for them.
    """
    main: Any = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) == "pyspark.daemon":
        main.traceback = QuietTraceback


leave_out_broken_pipes()
