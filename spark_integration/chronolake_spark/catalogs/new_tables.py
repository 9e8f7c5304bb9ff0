"""``CREATE TABLE``: the definition of a table, from what Spark knows of it."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

import chronolake
from chronolake.errors import BasePathTaken, LocationNotAllowed
from chronolake.writing import choices
from chronolake_model.names import split_table_name
from chronolake_spark import creating, errors
from chronolake_spark.catalogs import definitions
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.definitions import TableOfSpark

LOCATION: Final = "location"
COMMENT: Final = "comment"
OF_SPARK: Final = frozenset({"provider", "owner", "external", "is_managed_location"})
"""Properties that Spark adds: a table of Chronolake has no use for them."""
_OPTION: Final = "option."
_PROVIDER: Final = "chronolake"
_DEFAULT_SOURCE: Final = "spark.sql.sources.default"
_FOLDER: Final = "chronolake-data"
"""The folder of tables without a location, as of ``chronolake ingest``."""


class ColumnToMake(msgspec.Struct, frozen=True):
    """Parts of a new column that a schema lacks."""

    name: str
    comment: str | None = None
    default: str | None = None
    generated: str | None = None


class TableToMake(msgspec.Struct, frozen=True):
    """A request for a new table. Each of ``partitions`` is the name of a transform and its columns."""

    table: str
    schema: str
    columns: list[ColumnToMake]
    partitions: list[list[str]]
    properties: dict[str, str]
    constraints: list[str] = []


def _boolean(name: str, text: str) -> bool:
    choices.word(name, text.lower(), ["true", "false"])
    return text.lower() == "true"


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise errors.InvalidOption(f"{name} is a number, not {text!r}")
    return int(text)


_MADE_WITH: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    "record_key": ("record_key_fields", lambda _, text: [part.strip() for part in text.split(",")]),
    "ordering_field": ("ordering_field", lambda _, text: text),
    "type": ("type", lambda _, text: text),
    "index": ("index", lambda _, text: text),
    "buckets": ("buckets", _number),
    "reuse_base_path": ("reuse_base_path", _boolean),
}
"""By the name of a property: the argument of ``create_table``, and its value of the text."""
FIXED: Final = frozenset({*_MADE_WITH, LOCATION})
"""The properties that a table keeps as it was made with them."""
_PARTITIONED: Final = "PARTITIONED BY"
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "primarykey": "record_key",
    "recordkeyfields": "record_key",
    "hoodie.datasource.write.recordkey.field": "record_key",
    "hoodie.table.recordkey.fields": "record_key",
    "precombinefield": "ordering_field",
    "hoodie.datasource.write.precombine.field": "ordering_field",
    "hoodie.table.precombine.field": "ordering_field",
    "hoodie.table.ordering.fields": "ordering_field",
    "hoodie.datasource.write.table.type": "type",
    "hoodie.table.type": "type",
    "hoodie.index.type": "index",
    "hoodie.bucket.index.num.buckets": "buckets",
    "partitionfields": _PARTITIONED,
    "hoodie.datasource.write.partitionpath.field": _PARTITIONED,
    "hoodie.table.partition.fields": _PARTITIONED,
}
"""The names that Hudi and the Python client have for these properties, without ``_`` and in small letters."""
_LIKENESS: Final = 0.85


def create(context: CatalogContext, request: TableToMake) -> TableOfSpark:
    """Make a table. Raises ``InvalidOption`` for parts that a table cannot have, and the server's errors."""
    split_table_name(request.table)
    _refuse_unsupported(request)
    given = {name: text for name, text in request.properties.items() if not name.startswith(_OPTION)}
    _refuse_other_provider(context, given.get("provider"))
    _refuse_other_names(given, is_partitioned=bool(request.partitions))
    made_with = {
        argument: read(name, given[name]) for name, (argument, read) in _MADE_WITH.items() if name in given
    }
    if "record_key_fields" not in made_with:
        raise errors.InvalidOption(
            f"{request.table} needs a record key: name its columns as TBLPROPERTIES (record_key = 'id'), or "
            "make the table of a frame by df.writeTo(…).tableProperty('record_key', 'id').create()"
        )
    properties = {name: text for name, text in given.items() if name not in FIXED | OF_SPARK}
    definition = {
        "record_key_fields": made_with.pop("record_key_fields"),
        "partition_fields": [field for _, field in request.partitions],
        "properties": properties,
        **made_with,
    }
    struct = StructType.fromJson(msgspec.json.decode(request.schema))
    for field in struct:
        refuse_comments(field.dataType, field.name)
    if LOCATION in given:
        table = _made(context, request.table, struct, _plain(given[LOCATION]), definition)
    else:
        table = _made_by_default(context, request.table, struct, definition)
    return definitions.loaded(table.definition)


def _refuse_unsupported(request: TableToMake) -> None:
    for column in request.columns:
        if column.default is not None:
            raise errors.InvalidOption(f"columns have no default values: leave out DEFAULT of {column.name}")
        if column.generated is not None:
            raise errors.InvalidOption(
                f"columns are not generated: leave out GENERATED of {column.name}, and write its values"
            )
        if column.comment is not None:
            raise errors.InvalidOption(
                f"columns have no comments: leave out COMMENT of {column.name}; a table may have one"
            )
    for transform, *fields in request.partitions:
        if transform != "identity" or len(fields) != 1:
            raise errors.InvalidOption(
                f"a table is partitioned by columns, not by {transform}(…): "
                + (
                    "give the number of buckets as TBLPROPERTIES (buckets = '8')"
                    if transform in {"bucket", "sorted_bucket", "cluster_by"}
                    else "store the value in a column of its own"
                )
            )
    if request.constraints:
        raise errors.InvalidOption(
            f"tables have no constraints: leave out {request.constraints[0]}; the record key is TBLPROPERTIES "
            "(record_key = 'id')"
        )


def _refuse_other_names(given: Mapping[str, str], *, is_partitioned: bool) -> None:
    """A misspelt name would be a property without effect, and what a table is made with stays."""
    known = {name.replace("_", ""): name for name in _MADE_WITH}
    for name in sorted(given.keys() - FIXED - OF_SPARK):
        folded = name.lower().replace("_", "")
        nearest = difflib.get_close_matches(folded, known, n=1, cutoff=_LIKENESS)
        meant = _OTHER_NAMES.get(folded) or (known[nearest[0]] if nearest else None)
        if meant == _PARTITIONED and not is_partitioned:
            raise errors.InvalidOption(f"{name} has no effect: give the columns as PARTITIONED BY (day)")
        if meant in _MADE_WITH and meant not in given:
            raise errors.InvalidOption(f"{name} has no effect: did you mean the property {meant}?")


def refuse_comments(type_: DataType, path: str) -> None:
    """Raise ``InvalidOption`` if a field inside the type of the column ``path`` has a comment."""
    match type_:
        case StructType():
            for field in type_:
                inner = f"{path}.{field.name}"
                if COMMENT in field.metadata:
                    raise errors.InvalidOption(f"fields have no comments: leave out COMMENT of {inner}")
                refuse_comments(field.dataType, inner)
        case ArrayType():
            refuse_comments(type_.elementType, f"{path}.element")
        case MapType():
            refuse_comments(type_.keyType, f"{path}.key")
            refuse_comments(type_.valueType, f"{path}.value")
        case _:
            pass


def _refuse_other_provider(context: CatalogContext, provider: str | None) -> None:
    """``saveAsTable`` without a format names the default one of the session."""
    if provider is None or provider.lower() == _PROVIDER:
        return
    if provider != context.spark.conf.get(_DEFAULT_SOURCE):
        raise errors.InvalidOption(f"tables of this catalog are made USING chronolake, not USING {provider}")


def _made(
    context: CatalogContext, name: str, struct: StructType, base_path: str, definition: Mapping[str, Any]
) -> chronolake.Table:
    return creating.create_table(context.client, name, struct, base_path=base_path, **definition)


def _made_by_default(
    context: CatalogContext, name: str, struct: StructType, definition: Mapping[str, Any]
) -> chronolake.Table:
    """A table without LOCATION. The files of a dropped table of its name stay: then it has another folder."""
    namespace, table = split_table_name(name)
    folder = f"{_root(context, namespace)}/{table}"
    try:
        return _made(context, name, struct, folder, definition)
    except BasePathTaken:
        return _made(context, name, struct, f"{folder}-{uuid.uuid4().hex[:8]}", definition)
    except LocationNotAllowed as error:
        advice = "In SQL give LOCATION '…' to the table or its namespace, or the catalog the option warehouse"
        raise LocationNotAllowed(f"{error}. {advice}", error.problem) from None


def _plain(location: str) -> str:
    """A location as a base path: Spark makes ``file:/data`` of ``/data``."""
    return location.removeprefix("file:") if re.match(r"file:/(?!/)", location) else location


def _root(context: CatalogContext, namespace: str) -> str:
    """The folder of a namespace's tables: its location, or one in the catalog's or the driver's folder."""
    own = context.client.namespace(namespace).properties.get(LOCATION)
    if own is not None:
        return _plain(own).rstrip("/")
    if context.warehouse is not None:
        return f"{context.warehouse.rstrip('/')}/{namespace}"
    if context.spark.sparkContext.master.startswith("local"):
        return str(Path(_FOLDER, namespace).absolute())
    raise errors.InvalidOption(
        "the table has no location: give LOCATION 's3://bucket/folder', or make the namespace with one, or set "
        "spark.sql.catalog.<name>.warehouse"
    )
