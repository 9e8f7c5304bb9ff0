"""The writes of ``format("chronolake")`` in Spark's own processes: INSERT, and drivers without the import."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

from chronolake_spark import errors, format_options


def writer(options: Mapping[str, str], struct: StructType, *, overwrite: bool) -> DataSourceWriter:
    """The writer of one write. Raises ``InvalidOption``."""
    format_options.parse(options)
    raise errors.InvalidOption(
        "this write needs `import chronolake_spark` in the driver, which shuffles its rows by file group, and "
        'df.write.format("chronolake").option("table", …).mode("append").save(); SQL cannot write so far'
    )
