"""The types that the caller of an ingest states, applied to the columns of the files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from chronolake_model.tables import Table
from chronolake_spark.driver import schema
from chronolake_spark.write import casts


def with_types(struct: StructType, stated: Mapping[str, str]) -> StructType:
    """``struct`` with the stated types, which are those of names in lower case."""
    typed = StructType()
    for field in struct:
        type_ = stated.get(field.name.lower())
        typed.add(field.name, field.dataType if type_ is None else schema.type_of(type_))
    return typed


def with_new_columns(frame: DataFrame, table: Table, stated: Mapping[str, str]) -> DataFrame:
    """The frame with stated types for the columns that ``table`` does not have.

    They are to be added to it. Columns that it has are cast when they are written. Raises ``SchemaMismatch`` as
    ``casts.cast`` does.
    """
    own = {field.name.lower() for field in table.schema}
    for field in frame.schema:
        if (type_ := stated.get(field.name.lower())) is None or field.name.lower() in own:
            continue
        column = frame[schema.quoted(field.name)]
        wanted = schema.type_of(type_)
        frame = frame.withColumn(field.name, casts.cast(column, field.name, wanted, field.dataType))
    return frame
