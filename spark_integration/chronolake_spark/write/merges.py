"""MERGE of a source into a table, with clauses as Delta Lake has: when matched, when not matched.

The target is read from the snapshot that the write begins with. If another writer changes a file group that the
merge changes, the write conflicts, so no update is computed from a state that is gone.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.writing import column_names
from chronolake_model.instants import Instant
from chronolake_model.names import listed
from chronolake_model.tables import Table
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_failures
from chronolake_spark.read import frames
from chronolake_spark.write import casts, writes
from chronolake_spark.write.writes import Rows

Condition: TypeAlias = str | Column
Values: TypeAlias = Mapping[str, str | Column]
SOURCE: Final = "source"
TARGET: Final = "target"
_IS_MATCHED: Final = "_chronolake_matched"
_DELETES: Final = "_chronolake_merge_deletes"
_CLAUSE: Final = "_chronolake_clause"
_OWN_COLUMN: Final = re.compile(r"(, )?(`\w+`\.)?`_chronolake_\w+`")
_AMBIGUOUS: Final = "AMBIGUOUS_REFERENCE"


@dataclass(frozen=True, slots=True)
class Clause:
    """Action of a merge on a pair of a source row and a target row, or on a source row without a target row.

    ``values`` are by column of the table; None takes the source's columns. A clause that ``deletes`` has none.
    """

    when_matched: bool
    condition: Condition | None = None
    values: Values | None = None
    deletes: bool = False


class Merge:
    """A merge of a source into a table; make it with ``SparkTable.merge``, add clauses, then ``execute`` it.

    For each pair, or source row without a target row, the first clause whose condition holds applies; without
    one the row does nothing. Conditions and values may use the columns of both, as ``source.price`` and
    ``target.price``. A name without its side is refused as ambiguous if both sides have it, in each clause.
    A clause when not matched has only the source's values: the target's are null.
    """

    def __init__(self, run: Callable[[Sequence[Clause]], Instant], clauses: Sequence[Clause] = ()) -> None:
        self._run = run
        self._clauses = tuple(clauses)

    def when_matched_update(self, set: Values | None = None, *, condition: Condition | None = None) -> Merge:
        """Set columns of the target row to values, all to the source's columns unless given.

        The columns of the record key and the partition cannot be set.
        """
        return self._with(Clause(when_matched=True, condition=condition, values=set))

    def when_matched_delete(self, *, condition: Condition | None = None) -> Merge:
        """Delete the target row."""
        return self._with(Clause(when_matched=True, condition=condition, deletes=True))

    def when_not_matched_insert(
        self, values: Values | None = None, *, condition: Condition | None = None
    ) -> Merge:
        """Insert a row with these values, of the source's columns unless given; other columns are null."""
        return self._with(Clause(when_matched=False, condition=condition, values=values))

    def execute(self) -> Instant:
        """Do it, as one instant.

        Raises ``DuplicateKeys`` if two source rows change or insert one record, ``SchemaMismatch``,
        ``WriteConflict`` if another writer changed the same file groups meanwhile; ``ValueError`` without
        clauses.
        """
        if not self._clauses:
            raise ValueError("a merge needs a clause: when_matched_update(), when_not_matched_insert(), …")
        return self._run(self._clauses)

    def _with(self, clause: Clause) -> Merge:
        return Merge(self._run, [*self._clauses, clause])


def rows(
    spark: SparkSession,
    table: chronolake.Table,
    source: DataFrame,
    on: Sequence[str] | None,
    clauses: Sequence[Clause],
) -> Rows:
    """A function that makes the tagged rows of a merge. Raises ``SchemaMismatch``, ``TypeError``."""
    schema.refuse_no_frame(source)
    definition = table.definition
    names = _names_of_join(definition, source, on)
    clauses = [_spelled(definition, source, clause) for clause in clauses]
    for clause in clauses:
        _check_names(definition, source, clause)

    def changed(as_of: str) -> DataFrame:
        target = frames.snapshot(spark, table, table.snapshot(as_of), meta_columns=False)
        try:
            with spark_failures.unlogged():
                result = _changed(definition, source, target, names, clauses)
        except AnalysisException as exc:
            raise errors.SchemaMismatch(f"the merge does not fit {definition.name}: {_explained(exc)}") from exc
        return writes.tagged(result, definition, delete_when=sf.col(_DELETES))

    return changed


def _changed(
    table: Table, source: DataFrame, target: DataFrame, names: Sequence[str], clauses: Sequence[Clause]
) -> DataFrame:
    """The rows that the clauses write, in the table's columns, and whether they delete."""
    nulls = _null_is_a_value(table, names)
    left = source.alias(SOURCE)
    right = target.withColumn(_IS_MATCHED, sf.lit(True)).alias(TARGET)
    same = [_same(name, is_null_a_value=name in nulls) for name in names]
    joined = left.join(right, functools.reduce(Column.__and__, same), "left")
    is_matched = sf.col(_IS_MATCHED).isNotNull()
    number = functools.reduce(
        lambda chosen, clause: chosen.when(*clause),
        [(_applies(joined, clause, is_matched), sf.lit(index)) for index, clause in enumerate(clauses)],
        sf.when(sf.lit(False), sf.lit(None).cast("int")),
    )
    paired = joined.withColumn(_CLAUSE, number).where(sf.col(_CLAUSE).isNotNull())
    values = [_values(joined, table, source, clause) for clause in clauses]
    columns = []
    for index, field in enumerate(table.schema):
        value = sf.when(sf.lit(False), sf.lit(None).cast(schema.type_of(field.type)))
        for clause, of_clause in enumerate(values):
            value = value.when(sf.col(_CLAUSE) == clause, of_clause[index])
        columns.append(value.alias(field.name))
    deleting = [index for index, clause in enumerate(clauses) if clause.deletes]
    return paired.select(*columns, sf.col(_CLAUSE).isin(deleting).alias(_DELETES))


def _null_is_a_value(table: Table, names: Sequence[str]) -> set[str]:
    """The columns in which null is a value like others: those that name one record together.

    A record key of several fields may have nulls in some, and a partition may be that of null. In all other
    columns null matches nothing, as in SQL and in Delta Lake: it would match each record without a value.
    """
    has_key = set(table.record_key_fields) <= set(names)
    return {*table.record_key_fields, *table.partition_fields} if has_key else set()


def _same(name: str, *, is_null_a_value: bool) -> Column:
    source, target = _of(SOURCE, name), _of(TARGET, name)
    return source.eqNullSafe(target) if is_null_a_value else source == target


def _applies(joined: DataFrame, clause: Clause, is_matched: Column) -> Column:
    kind = is_matched if clause.when_matched else ~is_matched
    if clause.condition is None:
        return kind
    condition = _column(clause.condition)
    schema.refuse_no_condition(joined, condition, str(clause.condition))
    return kind & sf.coalesce(condition, sf.lit(False))


def _values(joined: DataFrame, table: Table, source: DataFrame, clause: Clause) -> list[Column]:
    """The values of a clause for the table's columns, in their types."""
    given, of_source = clause.values, _columns_of(source, table)
    if given is None and not clause.deletes:
        given = {name: _of(SOURCE, name) for name in of_source}
    fixed = {*table.record_key_fields, *table.partition_fields} if clause.when_matched else set()
    values = []
    for field in table.schema:
        value = None if given is None or field.name in fixed else given.get(field.name)
        if value is not None:
            values.append(_cast(joined, field.name, _column(value), field.type))
        elif clause.when_matched:
            takes_all = clause.values is None and not clause.deletes
            values.append(_kept(field.name, is_compared=takes_all and field.name in fixed & of_source))
        else:
            values.append(sf.lit(None).cast(schema.type_of(field.type)))
    return values


def _kept(name: str, *, is_compared: bool) -> Column:
    """The target's value. If it ``is_compared``, a row is refused whose source has another: it would move."""
    kept = _of(TARGET, name)
    if not is_compared:
        return kept
    refusal = errors.encoded(
        errors.SchemaMismatch(
            f"the merge would change the column {name!r} of a record, which is part of its record key or "
            "partition: name it in on, or delete the record and insert another",
            {"column": name},
        )
    )
    same = _of(SOURCE, name).eqNullSafe(kept)
    return sf.when(same, kept).otherwise(sf.raise_error(sf.lit(refusal)))


def _cast(joined: DataFrame, name: str, value: Column, type_: str) -> Column:
    target = schema.type_of(type_)
    return casts.cast(value, name, target, joined.select(value).schema[0].dataType)


def _names_of_join(table: Table, source: DataFrame, on: Sequence[str] | None) -> list[str]:
    names = listed(on or list(dict.fromkeys([*table.record_key_fields, *table.partition_fields])))
    own = _own_names(table, source, names)
    unknown = [name for name in names if name not in own]
    of_source = writes.sources_of(source, names)
    missing = [name for name in names if name not in of_source]
    if unknown or missing:
        raise errors.SchemaMismatch(
            f"a merge into {table.name} compares the columns {', '.join(names)}, and not both sides have "
            f"{', '.join(dict.fromkeys(unknown + missing))}",
            {"unknown": unknown, "missing": missing},
        )
    return list(own.values())


def _spelled(table: Table, source: DataFrame, clause: Clause) -> Clause:
    """The clause with the names of the table's columns as the table spells them."""
    if clause.values is None:
        return clause
    own = _own_names(table, source, list(clause.values))
    values = {own.get(name, name): value for name, value in clause.values.items()}
    if len(values) < len(own):
        raise errors.SchemaMismatch(f"a clause of the merge sets a column twice: {', '.join(own)}")
    return dataclasses.replace(clause, values=values)


def _own_names(table: Table, source: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """For each of the names that is a column of the table, its name there."""
    case_sensitive = source.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return column_names.sources_of([field.name for field in table.schema], names, case_sensitive=case_sensitive)


def _check_names(table: Table, source: DataFrame, clause: Clause) -> None:
    if clause.deletes:
        return
    given = list(source.columns) if clause.values is None else list(clause.values)
    own = _own_names(table, source, given)
    unknown = [name for name in given if name not in own]
    if unknown:
        raise errors.SchemaMismatch(
            f"{table.name} has no columns {', '.join(unknown)}: name the columns and their values in the "
            "clause, or drop the others from the source",
            {"unknown": unknown},
        )
    fixed = [name for name in given if name in {*table.record_key_fields, *table.partition_fields}]
    if clause.when_matched and clause.values is not None and fixed:
        raise errors.SchemaMismatch(
            f"the columns {', '.join(fixed)} are the record key or the partition of the record, which a merge "
            "cannot change: delete the record and insert another",
            {"columns": fixed},
        )


def _columns_of(source: DataFrame, table: Table) -> set[str]:
    return set(writes.sources_of(source, [field.name for field in table.schema]))


def _explained(exc: AnalysisException) -> str:
    """The message of the error, without a suggestion of the columns that a merge adds."""
    text = _OWN_COLUMN.sub("", spark_failures.first_line(exc)).replace("[, ", "[")
    if exc.getCondition() != _AMBIGUOUS:
        return text
    return f"{text}; name the side, as in {SOURCE}.id, also in a clause when not matched"


def _of(side: str, name: str) -> Column:
    return sf.col(f"{side}.{schema.quoted(name)}")


def _column(value: str | Column) -> Column:
    return sf.expr(value) if isinstance(value, str) else value
