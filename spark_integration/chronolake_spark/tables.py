"""Tables in Spark: insert, upsert and delete frames, and read records and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack, get_args

from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.slices.merge import Existing
from chronolake.writing import choices, writable_tables
from chronolake.writing.choices import Duplicates, Replaces
from chronolake_model.cuts import AsOf
from chronolake_model.files import Snapshot
from chronolake_model.filters import Filter
from chronolake_model.instants import Instant
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, Operation
from chronolake_spark import errors
from chronolake_spark.common.format_options import QueryView
from chronolake_spark.driver import progress, schema
from chronolake_spark.explain import of_reads, of_writes
from chronolake_spark.explain.explanations import Explanation
from chronolake_spark.explain.of_writes import WriteName
from chronolake_spark.index import lookups, record_locating
from chronolake_spark.index.lookups import Key
from chronolake_spark.read import filter_meanings, frames
from chronolake_spark.read.filters import FilterOrText
from chronolake_spark.table_services import ServicedTable
from chronolake_spark.write import (
    conditional_deletes,
    data_source,
    instant_options,
    merges,
    partition_deletes,
    resizes,
    schema_merges,
    shuffles,
    source_states,
    writes,
)
from chronolake_spark.write.instant_options import CommitOptions, InstantOptions
from chronolake_spark.write.merges import Clause, Merge
from chronolake_spark.write.shuffles import Sort
from chronolake_spark.write.writes import Rows, WriteSettings

Partitions: TypeAlias = Literal["dynamic", "all"]
ViewName: TypeAlias = Literal["snapshot", "read_optimized"]
_EXISTING: Mapping[str, Existing] = {"fail": Existing.FAIL, "drop": Existing.DROP}


class SparkTable(ServicedTable):
    """A table, read and written through a Spark session. Make it with ``chronolake_spark.table``.

    Each write is one instant: it is published whole or not at all. A write that fails is rolled back and
    raises a ``chronolake.errors.ChronolakeError``: ``WriteConflict`` when another writer published the same
    file groups first, ``InstantRolledBack`` when the lease ended meanwhile.

    With ``on_conflict="retry"`` a write that lost a conflict is written again as another instant, up to ten
    times with growing pauses. The frame is computed again; the number of retries is in the instant's extra
    metadata, ``conflicts.retries``. Do not use it when the frame was computed from the table itself.

    With ``merge_schema`` columns and nested fields of the frame that the table does not have are added to it
    before the write, and columns are widened to wider types of the frame where no stored value changes (int to
    bigint). If the write fails, they remain. Columns that the frame lacks are never filled in.

    Before each data file comes its marker: with the server, or as an object in the table's storage when the
    table's property ``markers.type``, or ``markers`` of the write, says ``direct``; then executors need not
    reach the server. Files of failed attempts of tasks are deleted before the write is published, or when it is
    rolled back.

    A record key is unique within its partition, as in Hudi: a record that comes with another partition value
    is another record, and the old one must be deleted. With the index ``record`` a key is unique in the whole
    table: the record moves to the other partition, in the same instant. Then deletes of keys need no partition
    columns.
    """

    def __init__(self, spark: SparkSession, client: chronolake.Client, table: chronolake.Table) -> None:
        super().__init__(spark, client, table)
        data_source.register(spark)

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._table.name

    @property
    def definition(self) -> Table:
        """The table's definition, as last fetched: each read and each write fetches it again."""
        return self._table.definition

    @property
    def metastore(self) -> chronolake.Table:
        """The same table at the metastore: its timeline, without Spark."""
        return self._table

    def insert(
        self,
        df: DataFrame,
        duplicates: Duplicates = "fail",
        *,
        row_order: Sequence[str | Column] = (),
        merge_schema: bool = False,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Add records. A key that exists, or comes twice, raises ``DuplicateKeys``; ``drop`` leaves it.

        Which of several rows of one key ``drop`` inserts is decided as in ``upsert``.
        Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``InvalidPartitionValue``, ``RequiredValueMissing``.
        """
        existing = _EXISTING.get(duplicates)
        if existing is None:
            raise ValueError(f"duplicates is one of {', '.join(map(repr, _EXISTING))}, not {duplicates!r}")
        rows = self._tagged(df, merge_schema, row_order=row_order)
        settings = WriteSettings(
            operation=Operation.INSERT,
            existing=existing,
            is_based_on_reads=True,
            options=options,
        )
        return self._write(rows, settings)

    def bulk_insert(
        self,
        df: DataFrame,
        sort: Sort = None,
        *,
        merge_schema: bool = False,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Add records whose keys the table does not have, as fast as they can be written.

        Keys are not looked up in the table: a key that it has already would be there twice, and only in a
        merge-on-read table with a bucket index it would be updated. Rows of one key within ``df`` are refused,
        unless they are the same or ordered by the ordering field; with the index simple or bloom and without
        ``sort``, only where they come into one file. Use ``insert`` or ``upsert`` where keys may repeat.

        ``sort`` orders the rows of each file: by these columns, so that filters skip row groups, or by the
        record key (``global``, in each file). With ``partition``, and always with a bucket or record index,
        Spark shuffles the rows to few files; with None each of its tasks writes its own. Raises as ``insert``.
        """
        rows = self._tagged(df, merge_schema, only_inserts=sort is None)
        settings = WriteSettings(
            operation=Operation.BULK_INSERT,
            existing=Existing.UNCHECKED,
            sort=shuffles.sort_columns(sort, rows),
            opens_groups=sort is None,
            options=options,
        )
        return self._write(rows, settings)

    def upsert(
        self,
        df: DataFrame,
        delete_when: str | Column | None = None,
        *,
        row_order: Sequence[str | Column] = (),
        file_states: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Insert new keys, update those that exist, delete where ``delete_when`` (an SQL condition) holds.

        With an ordering field the larger value wins, also against what is stored. Of rows of one key without
        one, or with equal values, the one that ``row_order`` puts last wins: columns, also such as the table
        does not have, compared one after the other, nulls first. Rows that differ and that nothing orders are
        refused: the rows of a DataFrame have no order of their own. Rows that are the same count as one.
        In a table with the merge mode ``partial-update``, columns that the frame lacks keep their values.
        ``delete_when`` may use columns that the table does not have. ``chronolake_spark.row_counts`` gives the
        result of each row. ``file_states`` are the files that ``df`` reads, each with its state by
        ``chronolake.ingest.loaded_files``: when one has changed by then, the instant is rolled back.
        Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``RequiredValueMissing``, ``DuplicateKeys``,
        ``SourceChanged``.
        """
        condition = sf.expr(delete_when) if isinstance(delete_when, str) else delete_when
        rows = self._tagged(df, merge_schema, delete_when=condition, row_order=row_order, may_lack=True)
        kept = writes.lacking(df, self.definition)
        settings = WriteSettings(
            operation=Operation.UPSERT,
            kept_columns=kept,
            is_based_on_reads=bool(kept),
            file_states=file_states or {},
            options=options,
        )
        return self._write(rows, settings)

    def delete(
        self,
        condition: DataFrame | str | Column,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Delete the records for which ``condition`` holds, or those with the keys of a frame.

        A condition is SQL, as in ``where``, or a Column. Where it is also a filter of ``read``, with the same
        meaning, only files are read that can have such records. If another writer changes their file groups
        meanwhile, the write conflicts; with ``on_conflict="retry"`` the condition is checked again.

        Of a frame it takes the record key and partition columns, and the ordering column if there is one: then
        a stored record with a larger value stays. Other columns, and keys that do not exist, are ignored.
        Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``WriteConflict``.
        """
        table = self._writable()
        has_keys = isinstance(condition, DataFrame)
        rows = conditional_deletes.keys_of(self._spark, self._table, table, condition)
        settings = WriteSettings(
            operation=Operation.DELETE,
            is_based_on_reads=not has_keys,
            options=options,
        )
        return self._write(rows, settings)

    def merge(
        self,
        source: DataFrame,
        on: Sequence[str] | None = None,
        **options: Unpack[InstantOptions],
    ) -> Merge:
        """A merge of ``source`` into the table: add clauses to it, then call ``execute``.

        Rows match where the columns ``on`` are the same, by default those of the record key and the partition.
        Null matches nothing, but in these columns if ``on`` has the whole record key. With an ordering field,
        an update with a smaller value than the stored one changes nothing. With ``on_conflict="retry"`` a merge
        that lost a conflict is computed again. ::

            table.merge(changes).when_matched_delete(condition="source.price is null").when_matched_update(
                {"price": "source.price", "version": "target.version + 1"}
            ).when_not_matched_insert().execute()
        """

        instant_options.check(options)

        def run(clauses: Sequence[Clause]) -> Instant:
            self._writable()
            settings = WriteSettings(
                operation=Operation.UPSERT,
                refuses_repeated_keys=True,
                is_based_on_reads=True,
                options=options,
            )
            return self._write(merges.rows(self._spark, self._table, source, on, clauses), settings)

        return Merge(run)

    def overwrite(
        self,
        df: DataFrame,
        partitions: Partitions | None = None,
        *,
        row_order: Sequence[str | Column] = (),
        merge_schema: bool = False,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Replace by ``df`` the partitions that it has rows of (``dynamic``), or the whole table (``all``).

        ``partitions`` must be given. An empty frame changes nothing with ``dynamic``, and empties the table
        with ``all``. In a table without partition fields, any row replaces the whole table. Rows of one key are
        decided as in ``upsert``. At most 10,000 file groups can be replaced at once.

        A frame that is computed from the table itself must be of its newest state: if another write completes
        between, ``FrameOutdated`` is raised, and ``on_conflict="retry"`` is refused with ``ValueError``. Raises
        what ``upsert`` raises.
        """
        rows = self._tagged(df, merge_schema, row_order=row_order)
        computed_from = source_states.state_of(df, self.definition, instant_options.on_conflict_of(options))
        settings = WriteSettings(
            operation=Operation.INSERT_OVERWRITE,
            replaces=choices.replaces(partitions),
            computed_from=computed_from,
            options=options,
        )
        return self._write(rows, settings)

    def delete_partitions(
        self,
        *partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        **options: Unpack[CommitOptions],
    ) -> Instant:
        """Delete all records of partitions, given by values: ``{"country": "de", "day": "2026-01-31"}``.

        Of several partition fields some may be left out: then all partitions with the other values are deleted.
        The value None is that of records without one. Partitions that do not exist are named in a warning. No
        file is read or written. Raises ``InvalidPartitionValue``.
        """
        self._writable()
        return partition_deletes.delete(
            self._spark,
            self._table,
            partition_deletes.listed(partitions),
            options,
        )

    def resize_buckets(
        self,
        buckets: int,
        **options: Unpack[InstantOptions],
    ) -> Instant:
        """Give a table with a bucket index another number of buckets: all its files are written anew.

        The records, and their commit times, stay as they are. A write that completes meanwhile makes it
        conflict, and one that began before conflicts afterwards; both can be retried. At most 10,000 file
        groups can be replaced. Raises ``TableMismatch``, also for the number that the table has, and
        ``WriteConflict``.
        """
        with progress.described(self._spark, f"resize {self.name} to {buckets} buckets"):
            instant = resizes.run(
                self._spark,
                self._table,
                buckets,
                options,
            )
        self._serve_after_write(instant_options.services_of(options))
        return instant

    def read(
        self,
        as_of: AsOf | None = None,
        meta_columns: bool = False,
        *,
        filter: FilterOrText | None = None,
        view: QueryView | ViewName = QueryView.SNAPSHOT,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The records as of a completion time, or now; Hudi's columns on request.

        ``as_of`` is digits, an aware datetime, or an instant that has completed. It may also be ``"earliest"``,
        the first time as of which it can be read, or ``"latest"``. Raises ``HistoryCleaned`` before that.
        The frame keeps showing this state when later instants complete. With a ``filter`` it has the records
        that match, and reads only files that could hold such records; conditions of ``where`` on the frame do
        not prune files at the server. Raises ``InvalidFilter``; ``ValueError`` for a text that is no filter,
        ``AmbiguousFilter`` for one that selects other records in SQL.

        The ``view`` of a merge-on-read table is ``snapshot``, base files merged with log files, or
        ``read_optimized``, base files only. ``columns`` are those of the table to read, all by default: name
        them when a merge-on-read table has many, because ``select`` on the frame does not prune the columns of
        file slices that executors merge.
        """
        view = choices.of("view", view, QueryView)
        if view is QueryView.CHANGES:
            raise ValueError("the changes of a table are read by changes(from_, to)")
        if filter is None:
            snapshot = self._table.snapshot(as_of)
            records = frames.snapshot(
                self._spark, self._table, snapshot, meta_columns=meta_columns, view=view, names=columns
            )
            return self._marked(records, as_of, snapshot)
        wanted = self._parsed_filter(filter)
        judged_by = self.definition.schema_version
        scan = self._table.scan(wanted, as_of)
        rows = frames.snapshot(self._spark, self._table, scan, meta_columns=meta_columns, view=view)
        matching = self._marked(frames.matching(rows, wanted, self.definition, judged_by), as_of, scan)
        return matching if columns is None else frames.projected(matching, columns, meta_columns=meta_columns)

    def lookup(self, keys: Sequence[Key], as_of: AsOf | None = None, meta_columns: bool = False) -> DataFrame:
        """The records with these keys, now or as of a completion time, without a scan of the table.

        A key is the value of the record key field, a tuple of values if there are several fields, or a dict by
        field. A dict may have the partition fields too: then only that partition is searched. A key that does
        not exist has no row. A timestamp without a zone is local time. At most 10,000 keys.
        ``table.lookup([42]).first()`` is one record, or None.

        The driver reads the row groups that may have the keys; there is no Spark job. Raises ``SchemaMismatch``
        if ``keys`` are not keys of the table, ``InvalidRecordKey`` for a key without value, and
        ``HistoryCleaned``.
        """
        return lookups.records(self._spark, self._table, keys, as_of, meta_columns=meta_columns)

    def update_index(self, *, rebuild: bool = False) -> None:
        """Take into the record index what completed since its last update; without such an index, do nothing.

        Each write through Spark does it. Do it after large writes of other engines, so that ``lookup`` need not
        read what they wrote. With ``rebuild`` the index is made again from the table's files. Raises
        ``TableMismatch`` if it is to be rebuilt and there is none.
        """
        if self._table.reload().definition.index.type is IndexType.RECORD:
            index = RecordIndex(self._table)
            index.catch_up(
                rebuild=rebuild, distributed=record_locating.distributed(self._spark, index.index_folder)
            )
        elif rebuild:
            raise errors.TableMismatch(
                f"{self.name} has the index {self.definition.index.type}: only a table with the index 'record' "
                "has a record index to rebuild"
            )

    def changes(
        self,
        from_: AsOf | None = None,
        to: AsOf | None = None,
        meta_columns: bool = False,
        *,
        filter: FilterOrText | None = None,
    ) -> DataFrame:
        """The records that changed in the range (from_, to] of completion times, with ``_change_type``.

        Both ends are given as ``as_of`` of ``read``. Raises ``HistoryCleaned``.
        Each changed record comes once: ``upsert`` with its state at the range's end, or ``delete`` with the
        state before the range. What was inserted and deleted within the range comes only in smaller ranges.
        With a ``filter``, as in ``read``, those that match in the state that they come with: a record that
        matched before the range and does not match any more is an upsert that is left out.
        """
        changes = self._table.changes(from_, to)
        if filter is None:
            return frames.incremental(self._spark, self._table, changes, meta_columns=meta_columns)
        wanted = self._parsed_filter(filter)
        judged_by = self.definition.schema_version
        matching = frames.could_match(self._table, changes, wanted)
        rows = frames.incremental(
            self._spark, self._table, changes, meta_columns=meta_columns, matching=matching
        )
        return frames.matching(rows, wanted, self.definition, judged_by)

    def _marked(self, rows: DataFrame, as_of: AsOf | None, snapshot: Snapshot) -> DataFrame:
        """``rows`` with the mark of the newest state, unless the caller has named a state."""
        return rows if as_of is not None else source_states.marked(rows, self.definition, snapshot.as_of)

    def explain(
        self,
        operation: Literal["read"] | WriteName = "read",
        df: DataFrame | None = None,
        *,
        as_of: AsOf | None = None,
        filter: FilterOrText | None = None,
        view: QueryView | ViewName = QueryView.SNAPSHOT,
        columns: Sequence[str] | None = None,
        partitions: Partitions = "dynamic",
    ) -> Explanation:
        """Which partitions, file groups and files a read or a write will touch, and why; print it.

        A write is one of ``df``, whose places are computed, or one that changes records that match ``filter``,
        or any. Nothing is written. Another write may change the answer meanwhile.
        """
        choices.word("operation", operation, ["read", *get_args(WriteName)])
        wanted = None if filter is None else self._parsed_filter(filter)
        if operation == "read":
            return of_reads.explain(self._table, as_of, wanted, choices.of("view", view, QueryView), columns)
        replaces_all = choices.replaces(partitions) is Replaces.TABLE
        return of_writes.written(self._table, operation, df, wanted, replaces_all=replaces_all)

    def _parsed_filter(self, filter: FilterOrText) -> Filter:
        return filter_meanings.parse(self._spark, filter, self._table.reload().definition)

    def _writable(self, *, only_inserts: bool = False) -> Table:
        return writable_tables.check(self._table.reload().definition, only_inserts=only_inserts)

    def _tagged(self, df: DataFrame, merge_schema: bool, only_inserts: bool = False, **how: Any) -> DataFrame:
        """The rows as ``writes.tagged`` makes them, for the table with the columns of the frame."""
        schema.refuse_no_frame(df)
        table = self._writable(only_inserts=only_inserts)
        table = schema_merges.apply(self._table, df, **how) if merge_schema else table
        return writes.tagged(df, table, **how)

    def _write(self, rows: Rows, settings: WriteSettings) -> Instant:
        with progress.described(self._spark, f"{settings.operation} {self.name}"):
            instant = writes.run(self._table, rows, settings)
        self._after_write(settings.options)
        return instant

    def _after_write(self, options: InstantOptions) -> None:
        record_locating.follow(self._spark, self._table)
        self._serve_after_write(instant_options.services_of(options))


def follow_statement(spark: SparkSession, client: chronolake.Client, written: chronolake.Table) -> None:
    """Do what follows a write, after a statement of SQL: update the record index, run services that are due."""
    SparkTable(spark, client, written)._after_write({})


def upsert_of_statement(table: SparkTable, rows: DataFrame) -> None:
    """Upsert the rows of a MERGE INTO. Raises as ``upsert``, and ``DuplicateKeys`` if two have one key."""
    settings = WriteSettings(operation=Operation.UPSERT, refuses_repeated_keys=True)
    table._write(table._tagged(rows, merge_schema=False), settings)


def table(
    spark: SparkSession,
    name: str,
    url: str | chronolake.ServerAccess | None = None,
    *,
    client: chronolake.Client | None = None,
) -> SparkTable:
    """The table ``namespace.table`` of the metastore at ``url`` (see ``chronolake.connect``), or of ``client``.

    Registers the data source ``chronolake`` with the session. Raises ``TableNotFound``.
    """
    client = client or chronolake.connect(url)
    return SparkTable(spark, client, client.table(name))
