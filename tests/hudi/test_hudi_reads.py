from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hudi
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from chronolake_hudi.properties import TableVersion
from chronolake_model.vocabulary import TableType
from tests.examples import examples
from tests.hudi.written_tables import KEYS, Blocks, Record, Row, WrittenTable

records = st.builds(Record, st.sampled_from(KEYS), st.integers(0, 3), st.none() | st.integers(0, 9))
batches = st.lists(records, max_size=4, unique_by=lambda record: record.key)
instants = st.one_of(
    st.tuples(st.just("upsert"), batches, st.sampled_from(Blocks)),
    st.tuples(st.just("delete"), st.sets(st.sampled_from(KEYS), max_size=3), st.none() | st.integers(0, 3)),
    st.tuples(st.just("replace"), st.sampled_from(KEYS), batches),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("leave_pending"), batches),
    st.tuples(st.just("savepoint_and_clean")),
)


def apply(table: WrittenTable, instant: tuple[Any, ...]) -> None:
    """Write one instant."""
    match instant:
        case ("upsert", batch, blocks):
            table.upsert([record for record in batch if not table.is_hidden_by_base(record)], blocks)
        case ("delete", keys, ts):
            table.delete(keys, ts)
        case ("replace", key, batch):
            table.replace(table.partition_of(key), batch)
        case ("compact", complete):
            table.compact(complete=complete)
        case ("leave_pending", batch):
            table.leave_pending(batch)
        case _:
            table.savepoint_and_clean()


def rows_of_hudi(folder: Path, as_of: str | None = None) -> list[Row]:
    """The rows that hudi-rs returns for the latest snapshot, or the one as of a requested time."""
    options = hudi.HudiReadOptions()
    if as_of is not None:
        options = options.with_as_of_timestamp(as_of)
    return sorted(
        (row["key"], row["ts"], row["value"], row["_hoodie_commit_time"])
        for batch in hudi.HudiTable(str(folder)).read(options)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("table_type", TableType)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from([TableVersion.EIGHT, TableVersion.NINE]),
    st.booleans(),
    batches.filter(bool),
    st.lists(instants, max_size=8),
    st.data(),
)
def test_hudi_returns_the_records_that_were_written(
    table_type: TableType,
    version: TableVersion,
    partitioned: bool,
    first: list[Record],
    following: list[tuple[Any, ...]],
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = WrittenTable(Path(folder), table_type, version, partitioned=partitioned)
        table.upsert(first)
        for instant in following:
            apply(table, instant)

        assert rows_of_hudi(table.folder) == table.rows()
        as_of = data.draw(st.sampled_from(sorted(table.rows_as_of)))
        assert rows_of_hudi(table.folder, as_of) == table.rows_as_of[as_of]


def test_hudi_returns_a_deleted_record_if_its_key_comes_back_with_a_smaller_ordering_value(
    tmp_path: Path,
) -> None:
    table = WrittenTable(tmp_path, TableType.MERGE_ON_READ, TableVersion.EIGHT, partitioned=False)
    in_base = table.upsert([Record(0, 1, 1)])
    table.delete([0], None)
    table.upsert([Record(0, 0, 2)])

    # A delete without ordering value does not outlive a later record of the key in the logs.
    assert rows_of_hudi(tmp_path) == [("0", 1, 1, in_base)]
