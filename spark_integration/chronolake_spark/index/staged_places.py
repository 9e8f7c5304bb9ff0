"""The file groups of staged rows, in tables without a bucket index: the committer looks the keys up.

It has the rules of ``locating`` and ``unique_keys``, but no Spark session. It holds in memory the keys of all
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import chronolake
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark.common import arrow_tags, columns
from chronolake_spark.index import candidates, targets, unique_places
from chronolake_spark.index.candidates import Candidates
from chronolake_spark.index.keys import lookup
from chronolake_spark.index.numbered_groups import NumberedGroup
from chronolake_spark.index.targets import Counts
from chronolake_spark.index.unique_keys import Treatment
from chronolake_spark.read import evolution
from chronolake_spark.read.slices import stored_slices

_THREADS: Final = 8
_KEY, _PATH, _NUMBER = columns.RECORD_KEY, columns.PARTITION_PATH, columns.BUCKET
_LOCATIONS: Final = pa.schema([(_KEY, pa.string()), (_PATH, pa.string()), (_NUMBER, pa.int32())])
_ROW: Final = "row"


def key_columns(table: Table) -> list[str]:
    """The columns of staged rows by which ``find`` places them."""
    ordering = [*arrow_tags.order_columns(table), *_ordering(table)]
    return list(dict.fromkeys([_KEY, _PATH, columns.DELETE, *table.record_key_fields, *ordering]))


@dataclass(frozen=True, slots=True)
class Places:
    """The file groups of rows.

    ``places`` has, by the columns ``by`` of the rows, the partition path and the number of the file group, one
    of ``groups``. ``deletes`` has the record key, the place, and the ordering value, if there is one, of rows
    that delete records which move.
    """

    places: pa.Table
    by: Sequence[str]
    groups: Sequence[NumberedGroup]
    deletes: pa.Table

    def rows(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Staged rows with their places, and the rows that delete. A key in two file groups comes twice."""
        layout = None
        for rows in tables:
            layout = rows.schema
            yield self._placed(rows)
        if layout is not None and len(self.deletes):
            yield self._deletes(layout)

    def _placed(self, rows: pa.Table) -> pa.Table:
        joined = _joined(rows.select(self.by), self.places, self.by)
        assert not joined[_NUMBER].null_count, "a staged row was not looked up"
        return _with_columns(rows.take(joined[_ROW]), joined.select([_PATH, _NUMBER]))

    def _deletes(self, layout: pa.Schema) -> pa.Table:
        count = len(self.deletes)
        values = {name: self.deletes[name] for name in self.deletes.column_names}
        values[columns.DELETE] = pa.repeat(pa.scalar(True), count)
        arrays = [
            values[field.name].cast(field.type) if field.name in values else pa.nulls(count, field.type)
            for field in layout
        ]
        return pa.table(arrays, schema=layout)


def find(keys: pa.Table, table: chronolake.Table, as_of: str, treatment: Treatment) -> Places:
    """The places of staged rows with these ``key_columns``, in the table as of a completion time.

    Raises as ``unique_places.find``.
    """
    definition = table.definition
    nothing = Candidates(evolution.versions(table, definition, []))
    if definition.index.type is IndexType.RECORD:
        of_keys = unique_places.find(keys, table, as_of, treatment)
        eligible = Candidates(nothing.written, of_keys.slices, fills_as_of=as_of)
        numbered = _joined(keys.select([_KEY, columns.DELETE]), of_keys.places, [_KEY])
        is_overwrite = treatment.replaces is not None
        return _assigned(numbered, table, nothing if is_overwrite else eligible, [_KEY], of_keys.deletes)
    eligible = nothing
    if treatment.replaces is None:
        eligible = candidates.find(keys, table, definition, as_of)
    by = [_KEY, _PATH]
    numbered = _joined(keys.select([*by, columns.DELETE]), _locations(keys, eligible), by)
    return _assigned(numbered, table, eligible, by, _LOCATIONS.empty_table())


def _ordering(table: Table) -> list[str]:
    return [] if table.merge_field is None else [table.merge_field]


def _joined(rows: pa.Table, places: pa.Table, by: Sequence[str]) -> pa.Table:
    """The rows, numbered, with the columns of their places, or null."""
    numbered = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
    return numbered.join(places, list(by), join_type="left outer").sort_by(_ROW)


def _with_columns(rows: pa.Table, replaced: pa.Table) -> pa.Table:
    for name in replaced.column_names:
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        rows = rows.set_column(index, field, replaced[name].cast(field.type))
    return rows


def _locations(keys: pa.Table, eligible: Candidates) -> pa.Table:
    """The keys that exist, with the number of their file group."""
    wanted = lookup.by_partition(keys)
    reader = eligible.written.reader([])
    uses_filters = eligible.written.table.index.type is IndexType.BLOOM

    def locations(number: int) -> pa.Table:
        stored = stored_slices.of(eligible.slices[number])
        of_partition = wanted[stored.partition_path]
        existing = lookup.existing(reader, stored, of_partition, uses_filters=uses_filters)
        return _places_of(existing, stored.partition_path, number)

    with ThreadPoolExecutor(_THREADS) as threads:
        parts = threads.map(locations, range(len(eligible.slices)))
        return pa.concat_tables([_LOCATIONS.empty_table(), *parts])


def _places_of(keys: pa.Array, partition_path: str, number: int) -> pa.Table:
    paths, numbers = pa.scalar(partition_path), pa.scalar(number, pa.int32())
    return pa.table([keys, pa.repeat(paths, len(keys)), pa.repeat(numbers, len(keys))], schema=_LOCATIONS)


def _assigned(
    numbered: pa.Table, table: chronolake.Table, eligible: Candidates, by: Sequence[str], deletes: pa.Table
) -> Places:
    """The places of rows whose number is that of a candidate, or null: they get one of a target."""
    chosen = targets.of(table, eligible, _profile(numbered, deletes))
    is_new = pc.is_null(numbered[_NUMBER])
    new = numbered.filter(is_new)
    numbers = chosen.numbers(new[_KEY].combine_chunks(), new[_PATH].combine_chunks())
    filled = pc.replace_with_mask(numbered[_NUMBER].combine_chunks(), is_new.combine_chunks(), numbers)
    places = _with_columns(numbered, pa.table({_NUMBER: filled}))
    names = list(dict.fromkeys([*by, _PATH, _NUMBER]))
    return Places(places.group_by(names).aggregate([]), by, chosen.groups, deletes)


def _profile(numbered: pa.Table, deletes: pa.Table) -> targets.Profile:
    is_delete = numbered[columns.DELETE]
    upserts = _counted(numbered.filter(pc.invert(is_delete)))
    deleted = _counted(numbered.filter(is_delete)) + _counted(deletes)
    return {place: Counts(upserts[place], deleted[place]) for place in upserts | deleted}


def _counted(rows: pa.Table) -> Counter[tuple[str, int | None]]:
    """The number of rows by partition path and number of their file group."""
    sums = rows.group_by([_PATH, _NUMBER]).aggregate([([], "count_all")])
    names = (_PATH, _NUMBER, "count_all")
    places = zip(*(sums[name].to_pylist() for name in names), strict=True)
    return Counter({(path, number): count for path, number, count in places})
