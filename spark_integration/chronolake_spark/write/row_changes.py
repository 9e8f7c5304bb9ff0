"""Completes DELETE, UPDATE and MERGE: the staged rows are written into the file groups of their records.

The statement has read a state of the table, and its instant began later. A file group that changed between, and
has one of the records that the statement changes, is a conflict; the server finds those since the begin. So
updates and deletes go to the file groups that the statement has read them from, without a lookup. Inserts, and
records whose key or partition changed, are looked up: their keys must not exist.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.errors import WriteConflict
from chronolake.indexes import partial_snapshots
from chronolake.indexes.candidates import Candidates
from chronolake.slices import base_files, columns
from chronolake.slices.base_files import TableFolder
from chronolake.slices.stored_slices import NumberedGroup
from chronolake_model.files import FileSlice
from chronolake_model.problems import Problem, ProblemCode
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, Operation
from chronolake_spark import errors
from chronolake_spark.driver import schema
from chronolake_spark.index import locating, record_locating
from chronolake_spark.write import data_source, shuffles, source_states, writes
from chronolake_spark.write.staged_changes import FILE_ID, StagedRows
from chronolake_spark.write.writes import WriteSettings

_PLACE: Final = [columns.RECORD_KEY, columns.PARTITION_PATH]
_GROUP: Final = [columns.PARTITION_PATH, FILE_ID]
_STORED: Final = "_chronolake_stored_file_id"
_CONTROL: Final = (
    f"{columns.RECORD_KEY} string, {columns.PARTITION_PATH} string, {columns.BUCKET} int, "
    f"{columns.DELETE} boolean, {columns.IS_NEW} boolean, {columns.IS_MOVED} boolean, {FILE_ID} string"
)
_TASKS_PER_CORE: Final = 2


@dataclass(frozen=True, slots=True)
class StagedStatement:
    """The rows that a statement has staged, and the state of the table that it has read.

    ``definition`` is that of the table with which the rows were staged.
    """

    definition: Table
    read_as_of: str
    operation: Operation
    staged: Sequence[StagedRows]

    @property
    def groups(self) -> set[tuple[str, str]]:
        """The partition path and the file id of the file groups that have one of the records."""
        return {(path, file_id) for rows in self.staged for path, file_id in rows.groups}

    def total(self, name: str) -> int:
        """The sum of a number of the tasks."""
        return sum(getattr(rows, name) for rows in self.staged)


def complete(
    spark: SparkSession, table: chronolake.Table, write: chronolake.Write, changed: StagedStatement
) -> None:
    """Write the staged rows, and complete the instant.

    Raises ``WriteConflict`` if the records changed after they were read, ``DuplicateKeys`` if a row inserts a
    key that exists, or two rows have one key.
    """
    # The session may have written nothing before.
    data_source.register(spark)
    as_of = write.requested_time
    live = live_slices(table, as_of, changed)
    settings = WriteSettings(operation=changed.operation, refuses_repeated_keys=True, is_based_on_reads=True)
    options = writes.options_of(table, changed.definition, write.instant, settings, {})
    with writes.completing(write), contextlib.ExitStack() as kept:
        rows = _in_order_of_keys(_staged(spark, table, changed), changed, kept)
        if changed.definition.index.type is IndexType.BUCKET:
            placed = shuffles.by_file_group(rows.drop(FILE_ID), changed.definition)
        else:
            rows, groups = _located(rows, table, changed, as_of, live, kept)
            placed = shuffles.by_number(rows, len(groups), ())
            slices = [group.slice_ for group in groups if group.slice_ is not None]
            fields = partial_snapshots.fields_of_slices(table, changed.definition, slices)
            options = options.with_groups(groups, fields)
        writes.save(placed, table, options)


def live_slices(table: chronolake.Table, as_of: str, changed: StagedStatement) -> list[FileSlice]:
    """The slices of the file groups that have the records, as of the begin.

    With buckets there are none if nothing has completed since the read: tasks look their slices up. Raises
    ``WriteConflict`` if one of them has changed since.
    """
    groups = changed.groups
    last = partial_snapshots.last_completion(table, as_of) or source_states.NOTHING_YET
    if last != changed.read_as_of:
        from_ = None if changed.read_as_of == source_states.NOTHING_YET else changed.read_as_of
        since = table.changes(from_, as_of)
        _refuse(table, groups & {(group.partition_path, group.file_id) for group in since.file_groups})
    elif changed.definition.index.type is IndexType.BUCKET:
        return []
    names = pa.table(dict(zip(_GROUP, _columns(sorted(groups)), strict=True)))
    slices, _ = partial_snapshots.of_file_groups(table, as_of, names)
    _refuse(table, groups - {(slice_.partition_path, slice_.file_id) for slice_ in slices})
    return slices


def _columns(groups: Sequence[tuple[str, str]]) -> list[pa.Array]:
    return [pa.array([group[index] for group in groups], pa.string()) for index in (0, 1)]


def _refuse(table: chronolake.Table, groups: Collection[tuple[str, str]]) -> None:
    if not groups:
        return
    message = (
        f"another write of {table.name} completed after the statement had read the table, and changed "
        f"{len(groups)} of the file groups that have its rows: nothing was written; run the statement again"
    )
    code = ProblemCode.WRITE_CONFLICT
    named = [{"partition_path": path, "file_id": file_id} for path, file_id in sorted(groups)[:10]]
    raise WriteConflict(
        message, Problem("about:blank", "Write conflict", 409, code, message, context={"file_groups": named})
    )


def _staged(spark: SparkSession, table: chronolake.Table, changed: StagedStatement) -> DataFrame:
    """The staged rows, read by as many tasks as the cores can use."""
    struct = spark.createDataFrame([], _CONTROL).schema
    for field in schema.struct_of(changed.definition.schema):
        struct = struct.add(field)
    files = [(rows.path, rows.size_bytes) for rows in changed.staged if rows.path is not None]
    most = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    is_small = changed.total("size_bytes") <= shuffles.SMALL_BYTES
    tasks = 1 if is_small else min(max(len(files), 1), most)
    parts = [files[first::tasks] for first in range(tasks)]
    read = _Read(changed.definition.base_path, dict(table.storage_options), parts)
    return spark.range(0, tasks, 1, tasks).mapInArrow(read, struct)


class _Read:
    """The function that reads staged files: each task those of its number."""

    def __init__(
        self, base_path: str, storage_options: dict[str, str], parts: Sequence[Sequence[tuple[str, int]]]
    ) -> None:
        self._base_path = base_path
        self._storage_options = storage_options
        self._parts = parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = TableFolder.of(self._base_path, self._storage_options)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for path, size_bytes in self._parts[number]:
                    with base_files.open_base_file(folder, path, size_bytes) as file:
                        yield from file.iter_batches()


def _in_order_of_keys(rows: DataFrame, changed: StagedStatement, kept: contextlib.ExitStack) -> DataFrame:
    """The rows, in which a delete and an insert of one record are an update of it.

    So keys can be exchanged, and a record that one clause deletes another can insert. Raises ``DuplicateKeys``
    in a table with an ordering field: the new value might be smaller than that of the deleted record, and lose.
    """
    if not changed.total("inserts") or not changed.total("deletes"):
        return rows
    names = rows.columns
    rows = locating.persisted(rows, kept)
    deletes, inserts = rows.where(columns.DELETE), rows.where(columns.IS_NEW)
    # Several rows of a source may delete one record.
    stored = deletes.select(*_PLACE, sf.col(FILE_ID).alias(_STORED)).distinct()
    replaced = inserts.join(stored, _PLACE, "left")
    if changed.definition.merge_fields and (example := replaced.where(f"{_STORED} is not null").first()):
        raise errors.DuplicateKeys(
            f"the statement deletes the record {example[columns.RECORD_KEY]!r} and inserts another with its "
            f"key: {changed.definition.name} has an ordering field, so the new one could lose; use two "
            "statements",
            {"record_key": example[columns.RECORD_KEY]},
        )
    replaced = schema.selected(
        replaced.withColumns({FILE_ID: sf.col(_STORED), columns.IS_NEW: sf.col(_STORED).isNull()}), names
    )
    others = rows.where(f"not {columns.DELETE} and not {columns.IS_NEW}")
    gone = schema.selected(deletes.join(inserts.select(*_PLACE), _PLACE, "left_anti"), names)
    return others.unionByName(gone).unionByName(replaced)


def _located(
    rows: DataFrame,
    table: chronolake.Table,
    changed: StagedStatement,
    as_of: str,
    live: Sequence[FileSlice],
    kept: contextlib.ExitStack,
) -> tuple[DataFrame, Sequence[NumberedGroup]]:
    """The rows with the numbers of their file groups, and these: of the read ones, and where inserts go."""
    spark, names = rows.sparkSession, [name for name in rows.columns if name != FILE_ID]
    rows = locating.persisted(rows, kept)
    slices = list(live)
    numbered = _numbered(spark, slices)
    known = rows.where(f"{FILE_ID} is not null").drop(columns.BUCKET).join(sf.broadcast(numbered), _GROUP)
    placed = schema.selected(known, names)
    if changed.total("inserts"):
        inserts = rows.where(f"{FILE_ID} is null")
        if changed.definition.index.type is IndexType.RECORD:
            inserts, found = _of_record_index(rows, inserts, table, changed, as_of, kept)
        else:
            inserts, found = locating.looked_up(inserts.drop(FILE_ID), table, changed.definition, as_of, kept)
        numbers = {(slice_.partition_path, slice_.file_id): number for number, slice_ in enumerate(slices)}
        renumbered: list[int] = []
        for slice_ in found:
            number = numbers.setdefault((slice_.partition_path, slice_.file_id), len(slices))
            slices += [slice_] if number == len(slices) else []
            renumbered.append(number)
        if renumbered:
            number = sf.get(sf.lit(renumbered), sf.col(columns.BUCKET)).cast("int")
            inserts = inserts.withColumn(columns.BUCKET, number)
        placed = placed.unionByName(schema.selected(inserts, names))
    placed = locating.persisted(placed, kept)
    located = locating.assigned(placed, table, Candidates(slices, fills_as_of=as_of))
    return located.rows, located.groups


def _numbered(spark: SparkSession, slices: Sequence[FileSlice]) -> DataFrame:
    places = [(slice_.partition_path, slice_.file_id, number) for number, slice_ in enumerate(slices)]
    return spark.createDataFrame(
        places, f"{columns.PARTITION_PATH} string, {FILE_ID} string, {columns.BUCKET} int"
    )


def _of_record_index(
    rows: DataFrame,
    inserts: DataFrame,
    table: chronolake.Table,
    changed: StagedStatement,
    as_of: str,
    kept: contextlib.ExitStack,
) -> tuple[DataFrame, Sequence[FileSlice]]:
    """Inserts with the file groups that have their keys in any partition, where they are refused.

    A key that the statement itself deletes is free. Raises ``DuplicateKeys`` if two rows insert one key.
    """
    keys = inserts.groupBy(columns.RECORD_KEY).count().where("count > 1").first()
    if keys is not None:
        raise errors.DuplicateKeys(
            f"{keys['count']} rows of the statement insert the record with the key {keys[0]!r}",
            {"duplicates": keys["count"], "record_key": keys[0]},
        )
    freed = rows.where(columns.DELETE).select(columns.RECORD_KEY)
    names = [name for name in inserts.columns if name != FILE_ID]
    moved = schema.selected(inserts.join(freed, columns.RECORD_KEY, "left_semi"), names)
    others = schema.selected(inserts.join(freed, columns.RECORD_KEY, "left_anti"), names)
    found = record_locating.of_new_keys(others, table, changed.definition, as_of, kept)
    return moved.unionByName(schema.selected(found.rows, names)), found.slices
