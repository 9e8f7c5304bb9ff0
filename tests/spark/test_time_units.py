"""Times of Parquet files in any unit, over the whole range of each: no value moves by a microsecond."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.ingest import parquet_files, source_files
from chronolake.ingest.bad_rows import BadRows
from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.file_rows import FilePart, FileRows
from chronolake_spark import errors
from chronolake_spark.index import lookups
from tests.spark.definitions import definition
from tests.spark.prices import Ingest, rows_of

COUNT = 5_000
NANOS_MICROS_MAX = (2**63 - 1) // 1000
YEAR_1, YEAR_1582, YEAR_1900, YEAR_9999 = (
    -62_135_596_800_000_000,
    -12_219_292_800_000_000,
    -2_208_988_800_000_000,
    253_402_300_799_999_999,
)


def _moments(least: int, greatest: int, step: int) -> npt.NDArray[np.int64]:
    """Microseconds in a range, multiples of ``step``: its ends, runs around turning points, and others."""
    random = np.random.default_rng(26)
    turns = [
        turn + np.arange(-500, 500) * step
        for turn in (0, YEAR_1582, YEAR_1900, 1_704_067_200_000_000)
        if least <= turn <= greatest
    ]
    others = random.integers(least, greatest, COUNT)
    moments = np.concatenate([[least, greatest], *turns, others])
    return np.unique(moments // step * step).clip(-(-least // step) * step, None)


MICROS = {
    "s": _moments(YEAR_1, YEAR_9999, 1_000_000),
    "ms": _moments(YEAR_1, YEAR_9999, 1_000),
    "us": _moments(YEAR_1, YEAR_9999, 1),
    "ns": _moments(-NANOS_MICROS_MAX, NANOS_MICROS_MAX, 1),
    "INT96": _moments(YEAR_1, YEAR_9999, 1),
}
PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _times(unit: str, zone: str | None) -> pa.Array:
    micros = MICROS[unit]
    match unit:
        case "INT96":
            return pa.array(micros, pa.timestamp("us", zone))
        case "ns":
            return pa.array(micros * 1_000, pa.timestamp("ns", zone))
        case _:
            return pa.array(micros // PER_UNIT[unit], pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    ("unit", "zone"),
    [("s", "UTC"), ("ms", None), ("us", "UTC"), ("us", None), ("ns", "UTC"), ("ns", None), ("INT96", "UTC")],
)
def test_a_time_of_a_file_is_the_same_microsecond_in_a_table(tmp_path: Path, unit: str, zone: str | None):
    file = tmp_path / "a.parquet"
    times = pa.table({"t": _times(unit, zone)})
    pq.write_table(times, file, use_deprecated_int96_timestamps=unit == "INT96")
    source = source_files.find(str(file))
    fields = source_files.inspect(source, ReadOptions(), lambda: None, BadRows()).fields
    rows = FileRows.of(source.format, fields, ReadOptions())
    [(batch, _)] = rows.batches(FilePart(0, file))

    assert [field.type for field in fields] == ["timestamp" if zone else "timestamp_ntz"]
    read = batch["t"].cast(pa.int64()).to_numpy()
    np.testing.assert_array_equal(np.sort(read), MICROS[unit])


def test_consecutive_microseconds_of_pandas_are_keys_of_their_own(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
):
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(microseconds=number) for number in range(1_000)]
    rows = pd.DataFrame({"ts": pd.Series(moments, dtype="datetime64[ns, UTC]"), "v": range(1_000)})
    rows.to_parquet(tmp_path / "in" / "a.parquet")
    [commit] = ingest("--key", "ts", "--buckets", "1")["commits"]

    assert (commit["inserts"], commit["rows"]["superseded"]) == (1_000, 0)
    assert [number for _, number in rows_of(table())] == list(range(1_000))
    found = table().to_arrow(where="ts = '2024-01-01T00:00:00.000016Z'")
    assert found["v"].to_pylist() == [16]


@pytest.mark.parametrize(
    "micros", [YEAR_1, YEAR_1582, -9_223_000_000_000_000, 0, 9_223_000_000_000_000, YEAR_9999]
)
@pytest.mark.parametrize("nanos", [1, 500, 999])
def test_nanoseconds_that_no_microsecond_holds_are_refused_in_any_century(
    tmp_path: Path, micros: int, nanos: int
):
    file = tmp_path / "a.parquet"
    times = pa.table({"t": pa.array([micros], pa.timestamp("us"))})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(times, file, use_deprecated_int96_timestamps=True, **options)
    parquet_files.check([file], None)

    content = file.read_bytes()
    assert content.count(_int96(micros, 0)) == 1
    file.write_bytes(content.replace(_int96(micros, 0), _int96(micros, nanos)))
    with pytest.raises(errors.SourceUnreadable, match="row 1, column t: the time is not a whole number"):
        parquet_files.check([file], None)


def _int96(micros: int, nanos: int) -> bytes:
    """A time as Spark and Impala write it: the nanoseconds of a day, and the number of the day."""
    days, micros_of_day = divmod(micros, 86_400_000_000)
    return struct.pack("<qi", micros_of_day * 1_000 + nanos, days + 2_440_588)


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_a_key_of_pandas_with_nanoseconds_finds_no_other_record(type_: str):
    zone = "UTC" if type_ == "timestamp" else None
    table = definition({"ts": type_}, ["ts"])
    wanted = lookups.wanted_keys(table, [pd.Timestamp(1_000, unit="ns", tz=zone)])

    assert len(wanted.tags) == 1
    with pytest.raises(errors.SchemaMismatch, match="has nanoseconds"):
        lookups.wanted_keys(table, [pd.Timestamp(1_001, unit="ns", tz=zone)])
