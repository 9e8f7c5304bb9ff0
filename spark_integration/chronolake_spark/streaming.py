"""Streams that ``format("chronolake")`` does not write: what to do instead."""

from __future__ import annotations

from chronolake_spark import errors


def no_writer() -> errors.InvalidOption:
    """The error of a stream that is written in a driver without this package."""
    return errors.InvalidOption(
        "writing a stream needs `import chronolake_spark` in the driver, and df.writeStream: Spark cannot "
        "shuffle rows for a data source in Python. Or use "
        ".foreachBatch(chronolake_spark.writer('namespace.table'))"
    )
