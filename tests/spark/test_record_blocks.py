"""Files are parsed in blocks of whole records, by threads of Python."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given, strategies as st

from chronolake.ingest import csv_files, json_rows, record_blocks, text_files
from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.text_files import Utf8Stream
from chronolake.slices.errors import SourceUnreadable
from chronolake_model.tables import Field

CHUNK_BYTES = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@pytest.fixture
def reading_threads(monkeypatch: pytest.MonkeyPatch) -> set[threading.Thread]:
    """The threads that have read a file, chunk by chunk."""
    seen: set[threading.Thread] = set()
    opened: Callable[[Path], BinaryIO] = text_files._opened

    def observed(file: Path) -> BinaryIO:
        source = opened(file)
        read = source.read

        class Observed:
            close = source.close

            def read(self, size: int) -> bytes:
                seen.add(threading.current_thread())
                return read(size)

        return Observed()  # type: ignore[return-value]

    monkeypatch.setattr(text_files, "_opened", observed)
    return seen


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_only_threads_that_python_waits_for_read_a_file(
    tmp_path: Path, name: str, reading_threads: set[threading.Thread]
):
    file = tmp_path / name
    file.write_text("v\n" + '"1"\n' * 9 if name == "a.csv" else '{"v": "1"}\n' * 9)

    if name == "a.csv":
        list(csv_files.rows(file, {"v": "string"}, ReadOptions()))
    else:
        list(json_rows.rows(file, [Field("v", "string")]))

    assert reading_threads
    assert not [thread for thread in reading_threads if isinstance(thread, threading._DummyThread)]


def test_the_first_rows_of_a_file_are_given_before_the_whole_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", CHUNK_BYTES)
    file = tmp_path / "a.csv"
    file.write_text("id,v\n" + "1,2\n" * 1_000)
    chunks = 0

    def count() -> None:
        nonlocal chunks
        chunks += 1

    next(csv_files._batches(file, "utf-8", count))

    assert chunks < 10


@given(st.text(alphabet='aé",\n\r\ufeff', max_size=60))
@example('a,"b""\n"",c",d\n')
@example('a"b,"c\nd"\n"e\nf",g"h\n')
@example("\ufeff\ufeffa,b\r\n\ufeffc,d\r\r\n")
def test_blocks_hold_the_records_that_arrow_reads_in_the_whole_text(folder: Path, text: str):
    content = f"h,v\n{text}".encode()

    rows = [row for number, block in enumerate(_blocks(folder, content)) for row in _rows(block, number)]

    assert rows == _rows(pa.py_buffer(content), 0)


@pytest.mark.parametrize("row", [b"1,2\n", b"1,2\r", b'"1\n,""",2\n', b'1",2\n', b'"\n1",2"\n'])
def test_a_block_ends_as_soon_as_a_record_does(folder: Path, row: bytes):
    """Otherwise memory would have to hold the file."""
    assert max(map(len, _blocks(folder, b"h,v\n" + row * 20))) <= len(row) + CHUNK_BYTES


def test_a_very_long_record_ends_the_reading(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_blocks, "_RECORD_BYTES_MAX", 10)

    with pytest.raises(pa.ArrowInvalid, match="a record is longer than"):
        _blocks(folder, b'h,v\n"a\n' + b"b,c\n" * 9)


def _blocks(folder: Path, content: bytes) -> list[pa.Buffer]:
    file = folder / "a.csv"
    file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch, Utf8Stream(file, "utf-8") as stream:
        patch.setattr(text_files, "_CHUNK_BYTES", CHUNK_BYTES)
        return list(record_blocks.of_csv(stream))


def _rows(block: pa.Buffer, number: int) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = pyarrow.csv.read_csv(
        pa.BufferReader(block),
        pyarrow.csv.ReadOptions(use_threads=False, column_names=["h", "v"] if number else None),
        pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip"),
        pyarrow.csv.ConvertOptions(column_types={"h": pa.string(), "v": pa.string()}),
    ).to_pylist()
    return rows


def test_texts_of_a_file_that_is_too_large_leave_room_for_others(tmp_path: Path):
    rows = [(number, pa.record_batch({"v": ["1234"] * 10})) for number in range(3)]
    kept = csv_files.KeptTexts(rows[0][1].nbytes * 2)

    for name, count in {"large": 3, "dropped": 2, "small": 2, "other": 1}.items():
        batches = kept.keeping(tmp_path / name, iter(rows[:count]))
        assert list(itertools.islice(batches, 1 if name == "dropped" else None))
        del batches

    assert [name for name in ("large", "dropped", "small", "other") if kept.has(tmp_path / name)] == ["small"]


@pytest.mark.parametrize("content", ['id,v\n1,"2\n' + "3,4\n" * 20, "id,v\n1," + "2" * 60])
def test_the_search_for_a_bad_record_holds_no_more_than_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
):
    monkeypatch.setattr(record_blocks, "_RECORD_BYTES_MAX", 50)
    monkeypatch.setattr(text_files, "RECORD_CHARS_MAX", 50)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", CHUNK_BYTES)
    (tmp_path / "a.csv").write_text(content)

    with pytest.raises(SourceUnreadable, match=r"line 2: (field larger than field limit|it has more than)"):
        csv_files.inspect([tmp_path / "a.csv"], ReadOptions())
