"""Streams of ``format("chronolake")``, which do not exist: what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from chronolake_spark import errors


class RefusingReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is untyped here
    """Refuses the first call of a stream."""

    def initialOffset(self) -> NoReturn:
        """Raises ``InvalidOption``."""
        raise errors.InvalidOption(
            "the format chronolake has no streams yet: read the changes of a table in batches, with the "
            "options from and to, or chronolake_spark.table(spark, 'namespace.table').changes(from_, to)"
        )

    def latestOffset(self) -> NoReturn:
        """Raises ``InvalidOption``."""
        self.initialOffset()

    def partitions(self, start: Any, end: Any) -> NoReturn:
        """Raises ``InvalidOption``."""
        self.initialOffset()

    def read(self, partition: Any) -> NoReturn:
        """Raises ``InvalidOption``."""
        self.initialOffset()


def no_writer() -> errors.InvalidOption:
    """The error of a stream that is written in a driver without this package."""
    return errors.InvalidOption(
        "writing a stream needs `import chronolake_spark` in the driver, and df.writeStream: Spark cannot "
        "shuffle rows for a data source in Python. Or use "
        ".foreachBatch(chronolake_spark.writer('namespace.table'))"
    )
