"""The struct fields by which two types of a column differ, and the type that has the fields of both."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from chronolake_spark.driver import schema


def fields_beyond(path: str, own: DataType, other: DataType) -> Iterator[tuple[str, DataType]]:
    """The paths and types of the struct fields that ``other`` has and ``own`` does not, at any depth.

    ``path`` is that of the column. Names are compared without regard to case, as the server does. The keys of
    maps are left out, because they never change.
    """
    match own, other:
        case StructType(), StructType():
            known = by_name(own)
            for field in other:
                inner = f"{path}.{schema.plain(field.name)}"
                if field.name.lower() in known:
                    yield from fields_beyond(inner, known[field.name.lower()].dataType, field.dataType)
                else:
                    yield inner, field.dataType
        case ArrayType(), ArrayType():
            yield from fields_beyond(f"{path}.element", own.elementType, other.elementType)
        case MapType(), MapType():
            yield from fields_beyond(f"{path}.value", own.valueType, other.valueType)
        case _:
            return


def merged(own: DataType, other: DataType) -> DataType:
    """``own`` with the struct fields that only ``other`` has, after its own, as the server adds them."""
    match own, other:
        case StructType(), StructType():
            known, given = by_name(own), by_name(other)
            kept = [
                StructField(
                    field.name,
                    merged(field.dataType, given[name].dataType) if name in given else field.dataType,
                )
                for name, field in known.items()
            ]
            return StructType([*kept, *(field for name, field in given.items() if name not in known)])
        case ArrayType(), ArrayType():
            return ArrayType(merged(own.elementType, other.elementType))
        case MapType(), MapType():
            return MapType(own.keyType, merged(own.valueType, other.valueType))
        case _:
            return own


def by_name(struct: StructType) -> dict[str, StructField]:
    """The fields of a struct, by their names in lower case."""
    return {field.name.lower(): field for field in struct}
