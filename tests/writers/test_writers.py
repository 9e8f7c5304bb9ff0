"""Writers in other languages, written by the documentation alone: each record is there once, in its bucket."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import hudi
import pyarrow as pa
import pytest
from typing_extensions import override

import chronolake
import python_writer
from chronolake import Field
from docs import vectors
from tests.client.gateway import Fault, Gateway
from tests.writers import programs
from tests.writers.conftest import TYPES, new_table
from tests.writers.programs import Row

EACH_LANGUAGE = pytest.mark.parametrize("language", list(programs.PROGRAMS))


def price(number: int, n: int, **changed: Any) -> Row:
    values: Row = {
        "id": number,
        "day": 20_000 + number % 3,
        "price": f"0.0000000{number % 7}",
        "region": "eu/1",
        "seen": 1_767_225_600_123_456 + number,
        "at": -1,
        "n": n,
        "small": -3,
        "tiny": 5,
        "open": True,
        "weight": 0.1,
        "ratio": 0.5,
        "note": "東京",
    }
    if number % 4 == 0:
        values |= {"region": None, "note": None, "seen": None, "open": None, "weight": None}
    return values | changed


@EACH_LANGUAGE
def test_a_writer_computes_the_test_vectors(language: str) -> None:
    done = programs.run(language, "vectors", str(vectors.FILE))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(vectors.FILE.read_text(encoding="utf-8"))


def test_writers_in_two_languages_update_each_others_records(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path
) -> None:
    rows = [price(number, 1) for number in range(40)]
    inserted = programs.write("python", prices, shared_server_url, "insert", rows, tmp_path)
    rows = [price(number, 2 if number % 2 else 0, note="new") for number in range(30, 60)]
    upserted = programs.write("java", prices, shared_server_url, "upsert", rows, tmp_path)
    stored = programs.records(prices)

    assert inserted["summary"]["inserts"] == 40
    assert (upserted["summary"]["inserts"], upserted["summary"]["updates"]) == (20, 5)
    assert sorted(row["id"] for row in stored) == list(range(60))
    assert {row["id"] for row in stored if row["note"] == "new"} == {31, 33, 35, 37, 39, *range(40, 60)}
    times = {row["id"]: row["_hoodie_commit_time"] for row in stored}
    assert (times[0], times[31]) == (inserted["requested_time"], upserted["requested_time"])
    slices = prices.snapshot().slices
    assert {file_slice.base_file.has_field_ids for file_slice in slices if file_slice.base_file} == {True}
    assert len({row["_hoodie_commit_seqno"] for row in stored}) == 60
    assert prices.check().totals == []
    back = programs.write("python", prices, shared_server_url, "upsert", [price(31, 3), price(33, 1)], tmp_path)
    assert (back["summary"]["inserts"], back["summary"]["updates"]) == (0, 1)
    assert prices.check().totals == []


def test_a_writer_that_read_the_table_before_it_was_resized_writes_nothing(
    prices: chronolake.Table, shared_server_url: str
) -> None:
    attempt = python_writer.Attempt(python_writer.Server(shared_server_url), prices.name, "insert")
    plan = chronolake.Plan(buckets=7)
    with prices.begin(action=chronolake.Action.CLUSTERING, plan=plan) as resize:
        resize.complete(buckets=7)
    with pytest.raises(ValueError, match="was resized meanwhile"):
        attempt.run([price(1, 1)])
    assert prices.snapshot().slices == []
    again = python_writer.Attempt(python_writer.Server(shared_server_url), prices.name, "insert")
    again.run([price(number, 1) for number in range(20)])
    assert prices.check().totals == []


def test_hudi_reads_each_state_that_writers_in_two_languages_leave(
    prices_for_hudi: chronolake.Table, shared_server_url: str, tmp_path: Path
) -> None:
    table = prices_for_hudi
    rows = [price(number, 1) for number in range(40)]
    programs.write("python", table, shared_server_url, "insert", without_at(rows), tmp_path)
    publish_and_compare(table)
    pending = table.begin()
    rows = [price(number, 2 if number % 2 else 0, note="new") for number in range(30, 60)]
    programs.write("java", table, shared_server_url, "upsert", without_at(rows), tmp_path)
    publish_and_compare(table)
    pending.rollback()
    programs.write("python", table, shared_server_url, "upsert", without_at([price(31, 3)]), tmp_path)
    publish_and_compare(table)

    rows = rows_of_hudi(table)
    assert sorted(row["id"] for row in rows) == list(range(60))
    assert {row["id"] for row in rows if row["note"] == "new"} == {33, 35, 37, 39, *range(40, 60)}


def publish_and_compare(table: chronolake.Table) -> None:
    """Publish a table up to the end of its log: then hudi-rs reads its rows."""
    table.publish()
    assert rows_of_hudi(table) == sorted(programs.records(table), key=lambda row: row["id"])


def rows_of_hudi(table: chronolake.Table) -> list[Row]:
    """The rows that hudi-rs reads, with Hudi's five columns."""
    batches = hudi.HudiTable(table.definition.base_path).read()
    return sorted(pa.Table.from_batches(batches).to_pylist(), key=lambda row: row["id"])


def without_at(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "at"} for row in rows]


class InBetween(Gateway):
    """Publishes the same record by another writer before the first completion of a commit is forwarded."""

    def __init__(self, target: str, table: str) -> None:
        super().__init__(target)
        self._other: tuple[str, str] | None = (target, table)

    @override
    def send_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        if path.endswith("/complete") and self._other is not None:
            (url, table), self._other = self._other, None
            python_writer.write(python_writer.Server(url), table, "upsert", [price(1, 5), price(2, 5)])
        return super().send_on(method, path, body, headers)


@EACH_LANGUAGE
def test_a_writer_that_loses_retries_on_the_result_of_the_winner(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    with InBetween(shared_server_url, prices.name) as gateway:
        instant = programs.write(language, prices, gateway.url, "upsert", [price(1, 6), price(2, 4)], tmp_path)

    assert {row["id"]: row["n"] for row in programs.records(prices)} == {1: 6, 2: 5}
    assert (instant["summary"]["inserts"], instant["summary"]["updates"]) == (0, 1)
    assert prices.check().totals == []
    assert list(prices.timeline.pending()) == []


@EACH_LANGUAGE
def test_a_writer_whose_requests_and_answers_are_lost_writes_once(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    with Gateway(shared_server_url) as gateway:
        begin = [Fault.LOSE_ANSWER, Fault.BAD_GATEWAY, None]
        markers = [Fault.LOSE_REQUEST, None]
        gateway.faults = [*begin, *markers, Fault.LOSE_ANSWER, Fault.BUSY, None]
        programs.write(language, prices, gateway.url, "insert", [price(1, 1)], tmp_path)
        keys = gateway.keys

    assert [keys.count(key) for key in dict.fromkeys(keys)] == [3, 2, 3]
    assert len(list(prices.instants())) == 1
    assert [row["id"] for row in programs.records(prices)] == [1]


@EACH_LANGUAGE
def test_a_folder_that_another_table_has_claimed_is_not_written_to(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    programs.write(language, prices, shared_server_url, "insert", [price(1, 1)], tmp_path)
    file = Path(prices.definition.base_path) / python_writer.CLAIM
    claim = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**claim, "table_id": str(uuid.uuid4())}), encoding="utf-8")
    before = sorted(Path(prices.definition.base_path).rglob("*"))

    refused = programs.run(language, shared_server_url, prices.name, "upsert", str(tmp_path / "rows.jsonl"))

    definition = prices.definition
    assert (claim["metastore_id"], claim["table_id"]) == (definition.metastore_id, definition.table_id)
    assert refused.returncode != 0
    assert "is claimed by" in refused.stderr
    assert sorted(Path(definition.base_path).rglob("*")) == before
    assert len(list(prices.instants())) == 1


@EACH_LANGUAGE
def test_a_writer_is_not_anonymous_in_the_log(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    programs.write(language, prices, shared_server_url, "insert", [price(1, 1)], tmp_path)

    with chronolake.connect(shared_server_url) as client:
        events = list(client.events(table=prices.name))

    assert {event.actor for event in events if event.instant} == {f"{language}-writer"}


@EACH_LANGUAGE
def test_a_writer_sends_the_token_of_a_file_by_the_tls_of_a_ca(
    guarded: chronolake.Client, tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guarded.access.token_file is not None
    assert guarded.access.ca_file is not None
    monkeypatch.setenv("CHRONOLAKE_TOKEN_FILE", guarded.access.token_file)
    monkeypatch.setenv("CHRONOLAKE_CA_FILE", guarded.access.ca_file)
    table = new_table(guarded, tmp_path, TYPES)

    programs.write(language, table, guarded.url, "insert", [price(1, 1)], tmp_path)

    assert len(programs.records(table)) == 1
    assert {event.actor for event in guarded.events(table=table.name)} == {"admin"}


@EACH_LANGUAGE
def test_a_date_is_written_as_a_text_or_as_days(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    rows = [price(1, 1, day="2026-01-31"), price(2, 1, day=20_484), price(3, 1, day="1969-12-31")]

    programs.write(language, prices, shared_server_url, "insert", rows, tmp_path)

    days = {row["id"]: str(row["day"]) for row in programs.records(prices)}
    assert days == {1: "2026-01-31", 2: "2026-01-31", 3: "1969-12-31"}
    assert prices.check().totals == []


def test_the_python_writer_prints_its_usage() -> None:
    ended = programs.run("python", "http://127.0.0.1:7077", "shop.orders")

    assert ended.returncode == 1
    assert (
        ended.stderr
        == "python_writer.py: usage: python_writer.py URL NAMESPACE.TABLE insert|upsert ROWS.jsonl\n"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"day": "20260131"}, "'20260131' is no date; write day as 2026-01-31, or the days since 1970-01-01"),
        ({"seen": "2026-01-31T10:00Z"}, "is no timestamp; write seen as the microseconds since 1970-01-01"),
        ({"small": 1.5}, r"row 1: 1\.5 is no smallint; write small as an integer"),
        ({"extra": 1}, "row 1 has the columns id, day,"),
    ],
)
def test_the_python_writer_names_the_accepted_form_of_a_value(
    prices: chronolake.Table, changed: Row, message: str
) -> None:
    types = {field.name: field.type for field in prices.definition.schema}

    with pytest.raises(ValueError, match=message):
        python_writer.stored_row(1, price(1, 1, **changed), types)


def test_the_python_writer_names_the_columns_whose_types_it_does_not_write(
    client: chronolake.Client, shared_server_url: str, tmp_path: Path
) -> None:
    table = client.create_table(
        f"writers.types_{uuid.uuid4().hex[:8]}",
        base_path=str(tmp_path / "lake"),
        schema=[Field("id", "bigint"), Field("photo", "binary"), Field("tags", "array<string>")],
        record_key_fields=["id"],
    )
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"id": 1, "photo": None, "tags": None}), encoding="utf-8")

    refused = programs.run("python", shared_server_url, table.name, "insert", str(file))

    assert (
        "does not write the columns photo (binary), tags (array<string>); it writes the types" in refused.stderr
    )
    assert len(refused.stderr.splitlines()) == 1
    assert list(table.instants()) == []


class Needed(Gateway):
    """Answers that every file is needed."""

    @override
    def send_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        answer = super().send_on(method, path, body, headers)
        if not path.endswith("/deletable"):
            return answer
        refused = [{**file, "reason": "live"} for file in json.loads(body)["files"]]
        return httpx.Response(200, json={**answer.json(), "refused": refused})


@EACH_LANGUAGE
def test_a_file_that_the_server_does_not_let_go_stays(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    programs.write("python", prices, shared_server_url, "insert", [price(7, 1)], tmp_path)
    file = tmp_path / "more.jsonl"
    rows = [*(price(number, 1) for number in range(8, 20)), price(7, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    with Needed(shared_server_url) as gateway:
        programs.run(language, gateway.url, prices.name, "insert", str(file))

    (rollback,) = prices.timeline.pending()
    marked = [marker.path for marker in prices.markers(str(rollback.target))]
    assert marked
    assert [path for path in marked if not (Path(prices.definition.base_path) / path).exists()] == []


@EACH_LANGUAGE
def test_an_insert_of_an_existing_key_leaves_no_file(
    prices: chronolake.Table, shared_server_url: str, tmp_path: Path, language: str
) -> None:
    programs.write("python", prices, shared_server_url, "insert", [price(7, 1)], tmp_path)
    file = tmp_path / "more.jsonl"
    # The file group that is refused comes after others that were written.
    rows = [*(price(number, 1) for number in range(8, 20)), price(7, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    refused = programs.run(language, shared_server_url, prices.name, "insert", str(file))

    assert refused.returncode != 0
    assert "already" in refused.stderr
    assert [row["id"] for row in programs.records(prices)] == [7]
    assert prices.orphans().orphans == []
    assert list(prices.timeline.pending()) == []
