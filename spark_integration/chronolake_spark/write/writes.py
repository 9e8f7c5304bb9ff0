"""The write path: prepare the rows, shuffle them by file group, merge on the executors, complete.

tag        record key, partition path, bucket, and whether a row deletes (Spark expressions)
locate     without a bucket index: the file group of each row (locating)
shuffle    by file group: repartitionById sends a group to exactly one task
write      the task brings the rows of each group together (task_rows); the data source merges them into the
           base file of the group, or appends to its log (bucket_writer)
complete   the data source's committer publishes all files at once, or the server names the conflict

Beside that, a write deletes the files of earlier writes that were rolled back without a client (rollbacks).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, functions as sf
from pyspark.sql.types import DataType

import chronolake
from chronolake.indexes import arrow_unique_keys, partial_snapshots, targets
from chronolake.slices import columns, stored_slices
from chronolake.slices.merge import Existing
from chronolake.slices.stored_slices import NumberedGroup
from chronolake.writing import arrow_tags, column_names, conflict_retries, counts, new_groups, writable_tables
from chronolake.writing.choices import Replaces
from chronolake_model.files import Snapshot
from chronolake_model.instants import Instant
from chronolake_model.markers import MarkersType, has_direct_markers
from chronolake_model.tables import Field, Table
from chronolake_model.vocabulary import Action, IndexType, Operation, State
from chronolake_spark import errors
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json
from chronolake_spark.driver import progress, schema, spark_failures, spark_internals
from chronolake_spark.index import locating, record_locating
from chronolake_spark.index.unique_keys import Treatment
from chronolake_spark.read import evolution
from chronolake_spark.write import (
    arrow_batches,
    casts,
    control_columns,
    data_source,
    instant_options,
    rollbacks,
    row_orders,
    shuffles,
    source_states,
)
from chronolake_spark.write.instant_options import InstantOptions
from chronolake_spark.write.options import WRITE_OPTION, BatchOptions, Fetched, WriteOptions


def tagged(
    df: DataFrame,
    table: Table,
    *,
    delete_when: Column | None = None,
    keys_only: bool = False,
    row_order: Sequence[str | Column] = (),
    may_lack: bool = False,
) -> DataFrame:
    """``df`` as the writer takes it: the control columns, then the table's, in order and cast to their types.

    ``keys_only`` asks no more than the columns that find a record, and marks every row as a delete. Of rows of
    one key that no ordering field decides between, the one that ``row_order`` puts last wins. If the frame
    ``may_lack`` the columns of ``lacking``, they are null. Raises ``SchemaMismatch``.
    """
    by = columns_of(row_order)
    used = [*by, *([] if delete_when is None else [delete_when])]
    sources = _sources(df, table, used, keys_only=keys_only, optional=lacking(df, table) if may_lack else ())
    if not table.merge_fields:
        # They decide between the rows of one frame also where the later write wins.
        ordering = _fields(table, [name for name in table.ordering_fields if name in sources])
        by = [*(_converted(df, field, sources[field.name]) for field in ordering), *by]
    given = {field.name: field.dataType for field in df.schema}
    own = [_cast(df, given, field, sources.get(field.name)) for field in table.schema]
    is_delete = sf.lit(True) if keys_only else _flag(delete_when)
    order_columns = row_orders.names(len(by))
    order = [column.alias(name) for column, name in zip(by, order_columns, strict=True)]
    with unfit_as_mismatch(table):
        if not keys_only and delete_when is not None:
            schema.refuse_no_condition(df, delete_when, "delete_when")
        made = [is_delete.alias(columns.DELETE), *order, *own]
        rows = schema.with_expressions(df, made)
    if not order_columns:
        return rows.select(*control_columns.of(table), "*")
    return rows.select(
        *control_columns.of(table),
        columns.DELETE,
        *row_orders.comparable(rows, order_columns),
        *(schema.quoted(field.name) for field in table.schema),
    )


@contextlib.contextmanager
def unfit_as_mismatch(table: Table) -> Iterator[None]:
    """A block in which Spark plans expressions of a frame: one that cannot be is a ``SchemaMismatch``."""
    try:
        with spark_failures.unlogged():
            yield
    except AnalysisException as exc:
        raise errors.SchemaMismatch(
            f"the rows do not fit {table.name}: {spark_failures.first_line(exc)}"
        ) from exc


Rows: TypeAlias = DataFrame | Callable[[str], DataFrame]
"""The tagged rows of a write, or what makes them from the table as of a time: that of the write's begin."""


class BatchInstant(Protocol):
    """The instant of a batch of a stream: the stream begins it, and completes it."""

    @property
    def options(self) -> BatchOptions:
        """The options that executors need of it, while it is begun."""

    def begun(self, operation: Operation) -> contextlib.AbstractContextManager[chronolake.Write]:
        """Begin its instant. If the block raises, the instant is rolled back."""

    def complete(self) -> Instant:
        """Complete its instant, which may happen later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Settings of a write: how it treats its rows.

    ``sort`` are columns that order the rows of each file group. ``refuses_repeated_keys`` if two rows of one
    key are an error. ``replaces`` are the file groups that it replaces, None if it changes them.
    ``is_based_on_reads`` if the rows depend on the snapshot that the write begins with: then it conflicts with
    any change since. ``options`` are those that all writes have. When a file of ``file_states`` is in another
    state before the completion, the instant is rolled back. ``computed_from`` is the state of the table, by its
    completion time, that the rows of an overwrite are computed from: when the table has changed since, the
    instant is rolled back. The columns ``kept_columns`` keep their stored values. With ``opens_groups`` rows
    that are not looked up are not shuffled: each task opens file groups of its own, if the table has the index
    simple or bloom. A ``batch`` is one of a stream, which gives the instant and completes it.
    """

    operation: Operation
    existing: Existing = Existing.MERGE
    sort: Sequence[str] = ()
    refuses_repeated_keys: bool = False
    replaces: Replaces | None = None
    is_based_on_reads: bool = False
    file_states: Mapping[str, str] = field(default_factory=dict)
    options: InstantOptions = field(default_factory=InstantOptions)
    kept_columns: Sequence[str] = ()
    computed_from: str | None = None
    opens_groups: bool = False
    batch: BatchInstant | None = None

    def __post_init__(self) -> None:
        instant_options.check(self.options)

    @property
    def markers(self) -> MarkersType | None:
        """The place of markers that overrides the table's property; None without one."""
        return self.options.get("markers")


def run(table: chronolake.Table, rows: Rows, settings: WriteSettings) -> Instant:
    """Write ``rows`` (tagged) as one instant and give it, completed. After a failure it is rolled back.

    The instant of a batch may complete later.
    """
    counts.check_metadata(instant_options.metadata_of(settings.options))
    definition = table.definition
    # Nothing is written where another table, or another metastore, has the claim.
    table.claim_storage()

    def attempt(retries: int) -> Instant:
        once = functools.partial(_run_once, table, definition, rows, settings, retries)
        with rollbacks.finished_beside(table):
            return arrow_batches.run(definition.table_id, once)

    return conflict_retries.run(attempt, instant_options.on_conflict_of(settings.options))


def _run_once(
    table: chronolake.Table,
    definition: Table,
    rows: Rows,
    settings: WriteSettings,
    retries: int,
    has_limit: bool,
) -> Instant:
    counted = {conflict_retries.RETRIES: str(retries)} if retries else {}
    with _begun(table, settings) as write:
        writable_tables.refuse_another_schema(definition, write.instant)
        definition = writable_tables.in_present_buckets(definition, write.instant)
        source_states.refuse_older(table, settings.computed_from, write.requested_time)
        if not has_direct_markers(definition, settings.markers):
            progress.begins_files(lambda: table.markers(write.requested_time))
        options = options_of(table, definition, write.instant, settings, counted)
        with completing(write):
            # As of the begin: what completes later the server takes for a conflict; no update is lost.
            as_of = write.requested_time
            tagged_rows = rows(as_of) if callable(rows) else rows
            has_limit = has_limit or not arrow_batches.can_be_unlimited(tagged_rows)
            tagged_rows = tagged_rows if has_limit else arrow_batches.guarded(tagged_rows)
            with _placed(tagged_rows, table, definition, as_of, settings) as (frame, numbered):
                if numbered is not None:
                    fields = partial_snapshots.fields_of_slices(
                        table, definition, stored_slices.slices_of(numbered)
                    )
                    options = options.with_groups(numbered, fields)
                save(frame, table, options, has_limit=has_limit)
        return write.refresh() if settings.batch is None else settings.batch.complete()


def _begun(
    table: chronolake.Table, settings: WriteSettings
) -> contextlib.AbstractContextManager[chronolake.Write]:
    if settings.batch is not None:
        return settings.batch.begun(settings.operation)
    action = None if settings.replaces is None else Action.REPLACECOMMIT
    return table.begin(action=action, operation=settings.operation, markers=settings.markers)


@contextlib.contextmanager
def completing(write: chronolake.Write) -> Iterator[None]:
    """A block in which Spark completes the instant: if it has completed, a failure of Spark is none."""
    try:
        yield
    except spark_failures.EXCEPTIONS as exc:
        if not _has_completed(write):
            raise typed(exc) from exc


def save(frame: DataFrame, table: chronolake.Table, options: WriteOptions, *, has_limit: bool = True) -> None:
    """Write rows that were shuffled by file group, and complete their instant.

    Batches of rows have a limit of bytes, unless ``arrow_batches`` guards them.
    """
    writer_options = {
        WRITE_OPTION: options.to_json(),
        SECRETS_OPTION: secrets_to_json(table.storage_options),
    }
    spark_internals.activate(frame.sparkSession)
    arrow_batches.save(frame, data_source.FORMAT, writer_options, is_limited=has_limit)


@contextlib.contextmanager
def _placed(
    rows: DataFrame,
    table: chronolake.Table,
    definition: Table,
    as_of: str,
    settings: WriteSettings,
) -> Iterator[tuple[DataFrame, Sequence[NumberedGroup] | None]]:
    """The rows, shuffled by file group, and the file groups that they name by number; None if by bucket."""
    omitted = arrow_tags.omitted_columns(definition, only_inserts=settings.existing is not Existing.MERGE)
    if _opens_groups(definition, settings):
        yield rows.drop(columns.BUCKET, *omitted), ()
        return
    if definition.index.type is IndexType.BUCKET:
        placed = control_columns.in_buckets(rows, definition)
        # Arrow makes these columns faster than Spark shuffles and sends them.
        yield shuffles.by_file_group(placed, definition, settings.sort).drop(*omitted), None
        return
    if definition.index.type is IndexType.RECORD:
        treatment = Treatment(settings.existing, settings.replaces, settings.kept_columns)
        with record_locating.located(rows, table, definition, as_of, treatment) as located:
            yield shuffles.by_number(located.rows, len(located.groups), settings.sort), located.groups
        return
    is_looked_up = _is_looked_up(settings)
    with locating.located(rows, table, definition, as_of, is_looked_up=is_looked_up) as located:
        yield shuffles.by_number(located.rows, len(located.groups), settings.sort), located.groups


def _opens_groups(definition: Table, settings: WriteSettings) -> bool:
    return settings.opens_groups and definition.index.type in locating.INDEXES


def _is_looked_up(settings: WriteSettings) -> bool:
    """Whether the index finds the file groups of keys that exist; if not, all rows go to new file groups."""
    return settings.existing is not Existing.UNCHECKED and settings.replaces is None


def options_of(
    table: chronolake.Table,
    definition: Table,
    instant: Instant,
    settings: WriteSettings,
    extra_metadata: Mapping[str, str],
    snapshot: Snapshot | None = None,
) -> WriteOptions:
    """The options of a write of rows that fit ``definition``.

    ``snapshot`` is the table's as of the instant's begin, if the caller has it.
    """
    has_buckets = definition.index.type is IndexType.BUCKET
    return WriteOptions(
        access=table.access,
        table=definition,
        requested_time=instant.requested_time,
        writer=instant.writer,
        markers=settings.markers,
        existing=settings.existing,
        refuses_repeated_keys=settings.refuses_repeated_keys,
        replaces=settings.replaces,
        is_based_on_reads=settings.is_based_on_reads or arrow_unique_keys.depends_on_reads(definition),
        kept_columns=list(settings.kept_columns),
        numbered=[],
        # An overwrite must not miss concurrent inserts into the partitions that it replaces.
        keys_looked_up=not has_buckets and settings.existing is not Existing.UNCHECKED,
        fetched=_fetched(table, definition, instant, settings, snapshot),
        extra_metadata={**instant_options.metadata_of(settings.options), **extra_metadata},
        file_states=dict(settings.file_states),
        is_in_order=bool(settings.sort),
        records_per_group=targets.records_per_group(table) if _opens_groups(definition, settings) else None,
        batch=None if settings.batch is None else settings.batch.options,
    )


def _fetched(
    table: chronolake.Table,
    definition: Table,
    instant: Instant,
    settings: WriteSettings,
    snapshot: Snapshot | None,
) -> Fetched | None:
    """Facts about the table, as of the begin of an instant, that tasks need; None where they ask the server.

    Without a bucket index, rows name their file groups: see ``WriteOptions.with_groups``.
    """
    has_buckets = definition.index.type is IndexType.BUCKET
    if not has_buckets or not has_direct_markers(definition, settings.markers):
        return None
    # With direct markers, tasks need not reach the server. The driver does not know the buckets of the rows.
    if snapshot is None:
        snapshot = table.snapshot(instant.requested_time)
    written = evolution.versions(table, definition, snapshot.slices)
    fields = {version: list(fields) for version, fields in written.all_fields().items()}
    slices = list(map(stored_slices.of, snapshot.slices))
    replaced = table.replaced_file_groups(instant.requested_time).file_groups
    return Fetched(
        slices=slices if settings.replaces is None else [],
        new_groups=new_groups.to_open(slices, replaced, settings.replaces),
        fields=fields,
    )


def dry_run(df: DataFrame, table: Table, **how: Any) -> int:
    """Prepare rows as for a write without writing them; returns their number.

    The parameters are those of ``tagged``. Raises the errors of a write for invalid rows.
    """
    counted = Observation()
    rows = tagged(df, writable_tables.check(table), **how).observe(counted, sf.count(sf.lit(1)).alias("rows"))
    try:
        rows.mapInArrow(data_source.CheckedTexts(table), rows.schema).write.format("noop").mode(
            "overwrite"
        ).save()
    except spark_failures.EXCEPTIONS as exc:
        raise typed(exc) from exc
    return int(counted.get["rows"])


def lacking(df: DataFrame, table: Table) -> list[str]:
    """The columns that the frame of an upsert lacks and whose stored values stay; none in other merge modes."""
    return column_names.lacking(table, sources_of(df, [field.name for field in table.schema]))


def _sources(
    df: DataFrame, table: Table, used: Sequence[Column], *, keys_only: bool, optional: Sequence[str]
) -> dict[str, str]:
    """For each column of the table the frame's name of it; refuses missing and unknown columns.

    A column that one of ``used`` names need not be the table's.
    """
    wanted = [field.name for field in table.schema]
    required = wanted
    if keys_only:
        required = column_names.needed_for_delete(table)
        wanted = [*table.record_key_fields, *table.partition_fields, *table.ordering_fields]
    sources = sources_of(df, wanted)
    if keys_only:
        column_names.refuse_some_of_ordering(table, sources)
    missing = [name for name in required if name not in sources and name not in optional]
    if keys_only:
        column_names.refuse_missing_of_delete(table, missing, df.columns)
    else:
        column_names.refuse_others(table, missing, unknown_columns(df, table, used))
    return sources


def columns_of(row_order: Sequence[str | Column]) -> list[Column]:
    """The columns of a row order; a text or a Column is one. Raises ``SchemaMismatch`` for a direction."""
    names = [row_order] if isinstance(row_order, str | Column) else row_order
    by = [sf.col(schema.quoted(name)) if isinstance(name, str) else name for name in names]
    row_orders.refuse_directions(by)
    return by


def sources_of(df: DataFrame, wanted: Sequence[str]) -> dict[str, str]:
    """For each wanted column that the frame has, its name there."""
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return column_names.sources_of(df.columns, wanted, case_sensitive=case_sensitive)


def unknown_columns(df: DataFrame, table: Table, used: Sequence[Column]) -> list[str]:
    """The columns of the frame that the table does not have, and that none of ``used`` names."""
    own = sources_of(df, [field.name for field in table.schema]).values()
    unknown = [name for name in df.columns if name not in own]
    return [name for name in unknown if not any(_names(column, name) for column in used)]


def _names(expression: Column, name: str) -> bool:
    """Whether the expression names this column."""
    # By its text: to ask Spark takes an analysis per column, and each that fails is logged as an error.
    return name.lower() in re.findall(r"\w+|`[^`]+`", str(expression).lower())


def _cast(df: DataFrame, given: Mapping[str, DataType], field: Field, source: str | None) -> str | Column:
    """A column of the table from that of the frame; as SQL where that does, which is faster."""
    if source is None:
        return schema.null_of(field)
    if schema.type_of(field.type) == given[source]:
        own = schema.quoted(source)
        return own if source == field.name else f"{own} as {schema.quoted(field.name)}"
    return _converted(df, field, source).alias(field.name)


def _converted(df: DataFrame, field: Field, source: str) -> Column:
    value, target, given = df[schema.quoted(source)], schema.type_of(field.type), df.schema[source].dataType
    return value if target == given else casts.cast(value, field.name, target, given)


def _flag(delete_when: Column | None) -> Column:
    return sf.lit(False) if delete_when is None else sf.coalesce(delete_when.cast("boolean"), sf.lit(False))


def _fields(table: Table, names: list[str]) -> list[Field]:
    by_name = {field.name: field for field in table.schema}
    return [by_name[name] for name in names]


def _has_completed(write: chronolake.Write) -> bool:
    """Whether the instant is published although Spark failed: the committer's answer may have been lost."""
    with contextlib.suppress(chronolake.ChronolakeError):
        return write.refresh().state is State.COMPLETED
    return False


def typed(exc: Exception) -> Exception:
    """The error that ``exc`` carries in its text, or ``exc`` itself, or the cause in a trace of Java."""
    if encoded := errors.decoded(str(exc)):
        return encoded
    if arrow_batches.is_large_row(exc):
        return arrow_batches.LargeRow()
    return exc if isinstance(exc, PySparkException) else errors.SparkJobFailed(spark_failures.message_of(exc))
