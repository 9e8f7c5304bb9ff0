"""Namespaces, tables and time through the client, against a real server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chronolake
from chronolake import errors
from chronolake_model.times import parse_time, to_datetime
from tests.client.conftest import SCHEMA
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import publish


def test_a_namespace_is_created_loaded_listed_and_dropped(client: chronolake.Client, namespace: str) -> None:
    made = client.create_namespace(f"{namespace}_b", {"owner": "me"})

    assert client.namespace(made.name) == made
    assert made in list(client.namespaces())
    client.drop_namespace(made.name)
    with pytest.raises(errors.NamespaceNotFound):
        client.namespace(made.name)


def test_a_namespace_that_exists_is_refused_unless_that_is_welcome(
    client: chronolake.Client, namespace: str
) -> None:
    with pytest.raises(errors.NamespaceExists):
        client.create_namespace(namespace)

    assert client.create_namespace(namespace, if_not_exists=True).name == namespace


def test_a_table_keeps_the_definition_it_was_made_with(client: chronolake.Client, namespace: str) -> None:
    made = client.create_table(
        f"{namespace}.events",
        base_path=f"s3://lake/{namespace}/events",
        schema=[*SCHEMA, chronolake.Field("day", "date"), chronolake.Field("seq", "bigint")],
        record_key_fields=["id"],
        type=chronolake.TableType.MERGE_ON_READ,
        partition_fields=["day"],
        ordering_field="seq",
        index=chronolake.BucketIndex(buckets=7),
        tick=chronolake.Tick.MICROSECOND,
        properties={"team": "blue"},
    )

    loaded = client.table(made.name).definition

    assert loaded == made.definition
    assert loaded.index.buckets == 7
    assert loaded.partition_fields == ["day"]
    assert loaded.tick is chronolake.Tick.MICROSECOND
    assert loaded.properties == {"team": "blue"}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"id": "bigint"}, r"a list of chronolake\.Field, .* not builtins\.dict"),
        (pa.schema([("at", pa.time64("us"))]), r"'at' .* no column type holds the values of Arrow's time64"),
    ],
)
def test_a_schema_of_another_kind_is_refused_with_the_one_that_is_taken(
    client: chronolake.Client, schema: Any, given: str
) -> None:
    with pytest.raises(TypeError, match=given):
        client.create_table("a.b", base_path="/a", schema=schema, record_key_fields=["id"])


def test_rows_of_arrow_are_read_as_written_from_a_table_of_their_schema(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2**64 - 1], pa.uint64()),
            "small": pa.array([1, 255], pa.uint8()),
            "text": pa.array(["a", None]).dictionary_encode(),
            "bytes": pa.array([b"a", b"b"], pa.large_binary()),
            "day": pa.array([0, 86_400_000], pa.date64()),
            "at": pa.array([1_000, None], pa.timestamp("ns", "Europe/Zurich")),
            "wall": pa.array([1, 2], pa.timestamp("ms")),
            "price": pa.array([1, 2], pa.decimal256(10, 2)),
            "tags": pa.array([["a"], None], pa.large_list(pa.large_string())),
            "parts": pa.array([{"odd name": 1.5}, None], pa.struct([("odd name", pa.float32())])),
            "counts": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int16())),
        },
    )
    schema = rows.schema.set(0, rows.schema.field("id").with_nullable(False))

    table = client.create_table(
        f"{namespace}.typed", base_path=str(tmp_path / "typed"), schema=schema, record_key_fields=["id"]
    )
    table.insert(rows)

    assert [field.type for field in table.definition.schema] == [
        "decimal(20,0)",
        "smallint",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(10,2)",
        "array<string>",
        "struct<`odd name`:float>",
        "map<string,smallint>",
    ]
    assert [field.name for field in table.definition.schema if not field.nullable] == ["id"]
    assert table.to_arrow().select(rows.column_names).sort_by("id").to_pylist() == rows.to_pylist()


def test_a_table_that_exists_is_refused_unless_that_is_welcome(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    again = {"base_path": "file:///elsewhere", "schema": SCHEMA, "record_key_fields": ["id"]}

    with pytest.raises(errors.TableExists):
        client.create_table(table.name, **again)  # type: ignore[arg-type]
    existing = client.create_table(table.name, if_not_exists=True, **again)  # type: ignore[arg-type]

    assert existing.definition == table.definition


def test_the_tables_of_a_namespace_are_listed_by_name(client: chronolake.Client, namespace: str) -> None:
    for name in ("b", "a"):
        client.create_table(
            f"{namespace}.{name}",
            base_path=f"file:///{namespace}/{name}",
            schema=SCHEMA,
            record_key_fields=["id"],
        )

    assert [table.name for table in client.tables(namespace)] == [f"{namespace}.a", f"{namespace}.b"]


def test_a_dropped_table_is_not_found(client: chronolake.Client, table: chronolake.Table) -> None:
    client.drop_table(table.name)

    with pytest.raises(errors.TableNotFound) as caught:
        table.reload()
    assert caught.value.context["table"] == table.name


def test_the_outcome_of_a_command_is_looked_up_by_its_key(
    client: chronolake.Client, table: chronolake.Table, troubled: chronolake.Table, gateway: Gateway
) -> None:
    write = troubled.begin()
    write.complete()

    done = client.outcome(gateway.keys[-1])

    assert (done.status, done.table) == (200, table.name)
    assert done.answer is not None
    assert done.answer["completion_time"] == write.instant.completion_time
    assert done.version == write.instant.version
    assert done.recorded_at is not None


def test_the_outcome_of_a_refused_command_is_its_problem(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    with pytest.raises(errors.TableExists) as caught:
        client.create_table(table.name, base_path="file:///x", schema=SCHEMA, record_key_fields=["id"])
    assert caught.value.idempotency_key is not None

    refused = client.outcome(caught.value.idempotency_key)

    assert (refused.status, refused.table) == (409, table.name)
    assert refused.answer is not None
    assert refused.answer["code"] == caught.value.code
    assert refused.answer["context"] == caught.value.context


def test_the_outcome_of_a_lost_answer_is_read_by_the_key_of_the_error(
    client: chronolake.Client, table: chronolake.Table, gateway: Gateway
) -> None:
    impatient = chronolake.connect(gateway.url, retry_seconds=0)
    gateway.faults.append(Fault.LOSE_ANSWER)
    with impatient, pytest.raises(errors.ConnectionFailed) as caught:
        impatient.drop_table(table.name)
    assert caught.value.idempotency_key is not None

    assert client.outcome(caught.value.idempotency_key).status == 204


def test_an_invalid_key_is_refused_without_a_request(client: chronolake.Client) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        client.outcome("é")


def test_the_time_is_an_interval(client: chronolake.Client) -> None:
    interval = client.time()

    assert len(interval.earliest) == len(interval.latest) == 20
    assert interval.earliest <= interval.latest


def test_without_a_server_the_client_gives_up_when_its_time_is_over() -> None:
    # Port 9 (discard) is reserved and never served here.
    client = chronolake.connect("http://127.0.0.1:9", retry_seconds=0.2)

    with client, pytest.raises(errors.ConnectionFailed, match=r"127\.0\.0\.1:9"):
        client.time()


def test_times_are_taken_as_digits_and_as_datetimes(table: chronolake.Table) -> None:
    first, second = publish(table, 0), publish(table, 1)
    between = to_datetime(parse_time(str(first.completion_time)))

    assert table.snapshot(between) == table.snapshot(first.completion_time)
    assert table.changes(between).instants == table.changes(first.completion_time).instants
    assert table.changes(to=between).instants == table.changes(to=first.completion_time).instants
    assert list(table.instants(completed_from=between)) == [second]
    in_another_zone = between.astimezone(timezone(timedelta(hours=5)))
    assert list(table.instants(completed_to=in_another_zone)) == [first]


def test_an_instant_is_taken_as_a_time(table: chronolake.Table) -> None:
    first, second = publish(table, 0), publish(table, 1)

    assert table.snapshot(first) == table.snapshot(first.completion_time)
    assert table.changes(first, second).instants == table.changes(first.completion_time).instants
    assert list(table.instants(completed_to=first)) == [first]
    assert list(table.instants(requested_from=first)) == [second]
    assert list(table.timeline.before_or_on(first)) == [first]
    assert list(table.timeline.by_completion_time().after(first)) == [second]
    with pytest.raises(ValueError, match="has not completed"):
        table.snapshot(table.begin().refresh())


def test_a_datetime_without_a_zone_is_refused(table: chronolake.Table) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        table.snapshot(datetime(2026, 1, 1))  # noqa: DTZ001  # that is the mistake


def test_an_instant_is_rolled_back_by_another_only_when_its_lease_has_ended(table: chronolake.Table) -> None:
    begun = table.begin(writer="job", lease_seconds=600)

    with pytest.raises(errors.LeaseLive):
        table.rollback(begun.requested_time, "stuck")
    done = table.rollback(begun.requested_time, "stuck", writer="job")

    assert (done.state, done.rollback_reason) == (chronolake.State.ROLLED_BACK, "stuck")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_any_number_of_completion_times_is_looked_up(server_url: str, table: chronolake.Table) -> None:
    done, pending = publish(table, 1), table.begin()
    requested_times = [done.requested_time, pending.requested_time, "20000101000000000"] * 3_500

    completion_times = table.completion_times(requested_times)

    assert completion_times == [done.completion_time, None, None] * 3_500
    assert table.completion_times([]) == []
    async with chronolake.connect_async(server_url) as client:
        assert await (await client.table(table.name)).completion_times(requested_times) == completion_times
    with pytest.raises(errors.InvalidRequest):
        table.completion_times(["yesterday"])


@pytest.mark.parametrize("path", ["/v1", "/lake/"])
def test_a_path_in_the_url_of_the_server_is_named_where_nothing_is_found(server_url: str, path: str) -> None:
    with chronolake.connect(server_url + path) as wrong, pytest.raises(errors.RouteNotFound) as refused:
        wrong.time()

    assert f"has the path {path.rstrip('/')}: is it right without it?" in str(refused.value)
