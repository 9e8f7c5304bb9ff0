"""The file group of each row, for tables whose index is not a hash of the key.

tagged rows -> the index finds the file groups of the keys that exist -> the assigner chooses for the others

File groups are numbered by the driver: first those that exist in the partitions of the rows, then new ones.
An index is a function from keys to numbers (``Locate``); ``INDEXES`` has one for each type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.storagelevel import StorageLevel

import chronolake
from chronolake_model.names import counted
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.common import columns
from chronolake_spark.driver import progress, schema
from chronolake_spark.index import candidates, file_index, targets
from chronolake_spark.index.candidates import Candidates
from chronolake_spark.index.numbered_groups import NumberedGroup
from chronolake_spark.index.targets import Counts
from chronolake_spark.read import evolution

_PLACE: Final = [columns.RECORD_KEY, columns.PARTITION_PATH]
_SLOTS: Final = "_chronolake_slots"

Locate: TypeAlias = Callable[[DataFrame, Candidates], DataFrame]
"""Finds the file groups of keys. The frame has the record key and the partition path of each row.

The result has them and the number of the candidate (``columns.BUCKET``), for each key that exists, also if its
last change in a log file is a delete. A key that is in two file groups comes twice: both get the row.
"""
INDEXES: Final[Mapping[IndexType, Locate]] = {
    IndexType.SIMPLE: file_index.locations,
    IndexType.BLOOM: file_index.locations,
}
"""The indexes that Spark writes, beside the bucket index."""


@dataclass(frozen=True, slots=True)
class Located:
    """Rows with the number of their file group, and the file groups."""

    rows: DataFrame
    groups: Sequence[NumberedGroup]


@contextlib.contextmanager
def located(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, *, is_looked_up: bool
) -> Iterator[Located]:
    """Tagged rows with their file groups. Write them within the context: it keeps frames in Spark's storage.

    The rows were tagged for ``definition``. They are looked up in the table ``as_of`` the begin of the instant.
    Unless ``is_looked_up``, all rows go to new file groups. Looked-up rows are computed once.
    """
    with contextlib.ExitStack() as kept:
        if not is_looked_up:
            yield assigned(rows, table, Candidates(evolution.versions(table, definition, [])))
            return
        rows = persisted(rows, kept)
        eligible = candidates.find(rows, table, definition, as_of)
        if eligible.slices:
            groups = counted(len(eligible.slices), "file group")
            progress.step(f"look up the keys of {counted(eligible.rows, 'row')} in {groups}")
            locate = INDEXES[definition.index.type]
            locations = persisted(locate(rows.select(*_PLACE), eligible), kept)
            names = [schema.quoted(name) for name in rows.columns]
            rows = rows.drop(columns.BUCKET).join(locations, _PLACE, "left").select(*names)
        yield assigned(rows, table, eligible)


def assigned(rows: DataFrame, table: chronolake.Table, eligible: Candidates) -> Located:
    """Rows whose number is that of a candidate, or null: they get one of a file group that takes inserts."""
    chosen = targets.of(table, eligible, _profile(rows))
    progress.step(f"write {counted(len(chosen.groups), 'file group')}")
    return Located(_filled(rows, chosen.slots), chosen.groups)


def persisted(frame: DataFrame, kept: contextlib.ExitStack) -> DataFrame:
    """``frame``, kept in Spark's storage until ``kept`` is closed."""
    kept.callback(frame.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
    return frame


def _profile(rows: DataFrame) -> targets.Profile:
    counted_rows = rows.groupBy(columns.PARTITION_PATH, columns.BUCKET).agg(
        sf.count_if(~sf.col(columns.DELETE)), sf.count_if(columns.DELETE)
    )
    return {(path, number): Counts(*counts) for path, number, *counts in counted_rows.collect()}


def _filled(rows: DataFrame, slots: Mapping[str, Sequence[int]]) -> DataFrame:
    """The rows with a number each: that of their file group, or the one that their key has among the slots."""
    names = rows.columns
    changed = errors.SourceChanged(
        "the rows changed while they were written: a partition appeared that they did not have at first. Write "
        "a frame that gives the same rows each time it is computed, for example one that is persisted"
    )
    by_key = sf.xxhash64(columns.RECORD_KEY)
    chosen = sf.lit(None)
    if [len(numbers) for numbers in slots.values()] == [1]:
        [(path, [number])] = slots.items()
        chosen = sf.when(sf.col(columns.PARTITION_PATH) == path, number)
    elif slots:
        frame = rows.sparkSession.createDataFrame(
            [(path, list(numbers)) for path, numbers in slots.items()],
            f"{columns.PARTITION_PATH} string, {_SLOTS} array<int>",
        )
        rows = rows.join(sf.broadcast(frame), columns.PARTITION_PATH, "left")
        chosen = sf.get(sf.col(_SLOTS), sf.pmod(by_key, sf.size(_SLOTS)).cast("int"))
    located = sf.coalesce(sf.col(columns.BUCKET), chosen, _refused(changed)).cast("int")
    return rows.withColumn(columns.BUCKET, located).select(*(sf.col(schema.quoted(name)) for name in names))


def _refused(error: errors.SparkIntegrationError) -> Column:
    return sf.raise_error(sf.lit(errors.encoded(error))).cast("int")
