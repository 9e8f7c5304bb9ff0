"""Files as others send them: each gives the expected rows, or the expected sentence, by every engine."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake.ingest.job import IngestJob
from chronolake.ingest.request import IngestRequest
from chronolake_spark import errors

FOLDER = Path(__file__).with_name("messy")
OPTIONS: dict[str, dict[str, Any]] = {"utf16.csv": {"encoding": "utf-16"}}
"""The options beside ``--key id``."""
Rows = list[tuple[Any, ...]]


def at(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


EXPECTED: dict[str, Rows | str] = {
    "quotes.csv": [(1, 'a "b", c\r\nd'), (2, 'x"y')],
    "bom.csv": [(1, "a")],
    "old_mac.csv": [(1, "a"), (2, "b")],
    "empty_and_null.csv": [(1, "", None), (2, " ", "NA")],
    "blank_lines.csv": [(1, "a"), (2, "b")],
    "no_last_newline.csv": [(1, "a")],
    "leading_zeros.csv": [(1, "00501"), (2, "10001")],
    "mixed_numbers.csv": [(1, "1e5"), (2, "+1"), (3, "1.50")],
    "large_integers.csv": [(1, 2**63 - 1), (2, -(2**63))],
    "too_large_integers.csv": [(1, "9223372036854775808")],
    "decimals.csv": [(1, Decimal("12345678901234567890.12")), (2, Decimal("-0.10"))],
    "timestamps.csv": [(1, at(2026, 1, 31, 8, 0, 0, 500_000)), (2, at(1582, 10, 10))],
    "zones.csv": [(1, "2026-01-31T08:00:00Z"), (2, "2026-01-31T09:00:00+01:00")],
    "no_such_day.csv": [(1, "2026-02-29")],
    "repeated_keys.csv": [(1, 3), (2, 2)],
    "reordered_case.csv": "have no column called id; they have ID, s",
    "unicode.csv": [(1, "naïve 😀"), (2, "e\u0301")],
    "utf16.csv": [(1, "é")],
    "only_a_header.csv": "the files hold no row, so the types of id, s cannot be inferred",
    "unclosed_quote.csv": "line 2: unexpected end of data; a quoted value ends in a quote",
    "text_after_quote.csv": "line 2: ',' expected after '\"'; a quoted value ends in a quote",
    "too_many_values.csv": "line 2: the row has 3 values, but the header has 2 columns",
    "too_few_values.csv": "line 3: the row has 1 values, but the header has 2 columns",
    "same_names.csv": "has several columns called S, s (case does not count)",
    "unnamed_column.csv": "has no name for its column 2",
    "semicolons.csv": "only commas separate values, not semicolons",
    "zero_byte.csv": "line 2: holds a zero byte, which no text has",
    "bad_utf8.csv": "line 3: byte 11 (0xe9) is not utf-8; say what the file is encoded in",
    "nothing.csv": "is empty: a CSV file begins with a line of column names",
    "no_key.csv": "line 3: the record key (id): there are rows where its value is null or empty",
    "reserved_name.csv": "has the columns _hoodie_commit_time, and a table cannot have them",
    "truncated.csv.gz": "cannot be decompressed or read: Compressed file ended before",
    "lines.jsonl": [({"x": [Decimal("1.0"), Decimal("2.5")]}, 1), (None, 2)],
    "large_numbers.jsonl": [(1, Decimal("18446744073709551616.0")), (2, Decimal("0.1"))],
    "array.json": [(1, "aé"), (2, None)],
    "field_twice.jsonl": "line 1: an object has the field 's' twice",
    "two_kinds.jsonl": "line 2, column v: a string, and",
    "nan.jsonl": "line 1: NaN is not a JSON number",
    "unusual.parquet": [
        (
            1,
            Decimal(2**64 - 1),
            datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC),
            "a",
            Decimal("1.5"),
        ),
        (2, Decimal(0), None, "b", None),
    ],
    "nanoseconds.parquet": "row 2, column t: the time is not a whole number of microseconds",
    "duration.parquet": "column t: tables have no type for duration[s]; write a number",
}
ENGINES = ["arrow", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]


def test_every_file_has_its_expectation() -> None:
    assert sorted(file.name for file in FOLDER.iterdir()) == sorted(EXPECTED)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("file", EXPECTED)
def test_a_messy_file_gives_its_rows_or_its_sentence(
    job_of: Callable[[IngestRequest], IngestJob],
    client: chronolake.Client,
    tmp_path: Path,
    name: str,
    file: str,
):
    source = shutil.copy(FOLDER / file, tmp_path)
    expected = EXPECTED[file]

    def load() -> Rows:
        job = job_of(
            IngestRequest(name, str(source), ("id",), str(tmp_path / "table"), **OPTIONS.get(file, {}))
        )
        list(job.run(job.prepare()))
        rows = client.table(name).to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)

    if isinstance(expected, str):
        with pytest.raises(
            (errors.SourceUnreadable, errors.SchemaMismatch, errors.InvalidRecordKey)
        ) as refused:
            load()
        assert expected in str(refused.value)
    else:
        assert load() == sorted(expected, key=repr)
