"""Deletes of whole partitions: their file groups are replaced by nothing. No file is read or written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import SparkSession, functions as sf

import chronolake
from chronolake.indexes import partial_snapshots
from chronolake.writing import column_names, conflict_retries, counts, key_refusals
from chronolake_model.files import FileGroupName, FileSlice
from chronolake_model.instants import Instant
from chronolake_model.partition_paths import Spelling
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Action, Operation
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_failures
from chronolake_spark.write import instant_options, keys
from chronolake_spark.write.instant_options import CommitOptions

_LOG = logging.getLogger("chronolake.spark")
Values: TypeAlias = Mapping[str, Any]
_Parts: TypeAlias = Sequence[str | None]
"""The parts of a partition path, None for any."""


def listed(partitions: Sequence[Values | Sequence[Values]]) -> list[Values]:
    """The values of each partition; a list of them may be given too. Raises ``ValueError`` for none."""
    values = [each for given in partitions for each in ([given] if isinstance(given, Mapping | str) else given)]
    if not values or not all(isinstance(each, Mapping) for each in values):
        raise ValueError("name each partition by its values, as {'country': 'de'}")
    return values


def delete(
    spark: SparkSession,
    table: chronolake.Table,
    values: Sequence[Values],
    options: CommitOptions,
) -> Instant:
    """Replace the file groups of the partitions with these values by nothing, in one instant.

    Raises ``InvalidPartitionValue`` and ``SchemaMismatch``.
    """
    instant_options.check(options, CommitOptions)
    extra_metadata = instant_options.metadata_of(options)
    counts.check_metadata(extra_metadata)
    wanted = [_parts(spark, table.definition, each) for each in values]
    table.claim_storage()

    def attempt(retries: int) -> Instant:
        counted = {conflict_retries.RETRIES: str(retries)} if retries else {}
        begun = table.begin(action=Action.REPLACECOMMIT, operation=Operation.DELETE_PARTITION)
        with begun as write:
            slices = _slices(table, wanted)
            _warn_of_missing(table.name, values, wanted, {slice_.partition_path for slice_ in slices})
            for slice_ in slices:
                write.replace(FileGroupName(slice_.partition_path, slice_.file_id))
            return write.complete([], {**extra_metadata, **counted})

    return conflict_retries.run(attempt, instant_options.on_conflict_of(options))


def _slices(table: chronolake.Table, wanted: Sequence[_Parts]) -> list[FileSlice]:
    """The live slices of the partitions. Only where some of the values are given, all partitions are listed."""
    as_of = partial_snapshots.last_completion(table, "latest")
    if as_of is None:
        return []
    if any(part is None for parts in wanted for part in parts):
        paths = [partition.partition_path for partition in table.partitions(as_of).partitions]
    else:
        paths = ["/".join(part for part in parts if part is not None) for parts in wanted]
    matching = [path for path in paths if any(_matches(path, parts) for parts in wanted)]
    return partial_snapshots.of_partitions(table, as_of, matching)


def _warn_of_missing(
    name: str,
    values: Sequence[Values],
    wanted: Sequence[_Parts],
    partition_paths: Collection[str],
) -> None:
    for given, parts in zip(values, wanted, strict=True):
        if not any(_matches(path, parts) for path in partition_paths):
            _LOG.warning("%s has no partition with the values %s: nothing of it is deleted", name, dict(given))


def _parts(spark: SparkSession, table: Table, values: Mapping[str, Any]) -> _Parts:
    """The parts of the partition path that the values of a partition have."""
    names = table.partition_fields
    if not names:
        raise errors.InvalidPartitionValue(
            f"{table.name} has no partitions; overwrite(..., partitions='all') with an empty frame empties it"
        )
    unknown = [name for name in values if name not in names]
    if unknown or not values:
        raise errors.InvalidPartitionValue(
            f"a partition of {table.name} is given by values of {', '.join(names)}, as "
            f"{{{names[0]!r}: …}}, not by {', '.join(map(repr, unknown)) or 'nothing'}",
            {"unknown": unknown},
        )
    by_name = {field.name: field for field in table.schema}
    given = [by_name[name] for name in names if name in values]
    if empty := [field.name for field in given if values[field.name] == "" and key_refusals.mixes_empty(field)]:
        raise errors.InvalidPartitionValue(key_refusals.empty_partition(empty, column_names.plain(empty[0])))
    typed = [
        sf.lit(values[field.name]).try_cast(schema.type_of(field.type)).alias(field.name) for field in given
    ]
    spelling = Spelling.of(table.properties)
    rows = spark.range(1).select(*typed)
    tests = [sf.col(schema.quoted(field.name)).isNull() for field in given]
    texts = [keys.partition_path([field], spelling) for field in given]
    try:
        [row] = rows.select(sf.array(*tests), sf.array(*texts)).collect()
    except spark_failures.EXCEPTIONS as exc:
        raise errors.decoded(str(exc)) or exc from exc
    for field, is_null in zip(given, row[0], strict=True):
        if is_null and values[field.name] is not None:
            raise errors.InvalidPartitionValue(
                f"the partition field {field.name!r} has the type {field.type}, and {values[field.name]!r} is "
                "no value of it",
                {"column": field.name},
            )
    part_of = dict(zip((field.name for field in given), row[1], strict=True))
    return [part_of.get(name) for name in names]


def _matches(partition_path: str, parts: _Parts) -> bool:
    own = partition_path.split("/")
    return len(own) == len(parts) and all(
        part is None or part == of_path for part, of_path in zip(parts, own, strict=True)
    )
