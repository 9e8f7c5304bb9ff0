"""Results as outcomes store them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.store.packed_results import BYTES_MAX, pack, unpack
from chronolake_model.times import Micros
from tests.store import tampering
from tests.store.history import History

PLACE = UUID("e04f45c5-8b4d-5b37-86cb-e681bccb7f5e"), 395, Micros(1_795_930_619_893_214)
RECORDED = Path(__file__).parents[1] / "server" / "recorded_results.json"
RESULTS = [entry["result"].encode() for entry in json.loads(RECORDED.read_text("utf-8"))]
COMPLETED = (
    b'{"type":"InstantResult/1","log_id":"e04f45c5-8b4d-5b37-86cb-e681bccb7f5e","of":{"tab":"bench.archive","tic":"1ms",'
    b'"ins":{"rt":1795930619802000,"act":"commit","ope":"upsert","sta":"completed","wri":"root@vm:14528","ls":60,'
    b'"lea":null,"ver":395,"ct":1795930619893000,"sum":{"files":1,"size_bytes":1843410,"records":50193,"inserts":20,'
    b'"updates":480,"deletes":0},"sv":1},"buc":8,"wo":8809805}}'
)
PACKED = bytes.fromhex(
    "012326208931072db09352f39233f4128b923332cb52a99d9c3023a2283fbfc4a12cd7cad0c4d4c8024fac0043051a2f"
    "c8e105b6187f345998189b181a204596a981a1a53152841921c7988905317166616100f4b6696d2d00"
)


@pytest.mark.parametrize("place", [PLACE, (None, None, None)])
def test_each_result_is_unpacked_as_it_was(place: tuple[UUID, int, Micros]) -> None:
    long = b'{"type":"%s"}' % (b"x" * BYTES_MAX)
    packed = [pack(result, *place) for result in [*RESULTS, COMPLETED, long]]
    assert [unpack(stored, *place) for stored in packed] == [*RESULTS, COMPLETED, long]
    assert packed[-1] == long


def test_a_result_that_was_packed_before_is_read() -> None:
    assert unpack(PACKED, *PLACE) == COMPLETED


@pytest.mark.parametrize("changed", [PACKED + b"\0", PACKED[:-1]])
def test_a_packed_result_that_was_changed_stays_packed(changed: bytes) -> None:
    assert unpack(changed, *PLACE) == changed


@pytest.fixture
def shop(dsn: str) -> Iterator[History]:
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table("shop.orders")
        yield history


def test_refusals_are_stored_as_json_and_successes_in_a_third_of_it(shop: History) -> None:
    shop.ask("begun", BeginInstant("shop.orders", "w"), rendering.V1)
    shop.ask("refused", BeginInstant("shop.nothing", "w"), rendering.V1)
    with psycopg.connect(shop.dsn) as connection:
        query = (
            "SELECT result FROM chronolake.outcome WHERE request_id IN ('begun', 'refused') ORDER BY request_id"
        )
        [[begun], [refused]] = connection.execute(query).fetchall()
    assert len(begun) < 110
    assert json.loads(refused)["code"] == "table-not-found"


def test_a_result_of_json_is_answered_as_before(shop: History) -> None:
    first = shop.ask("begun", BeginInstant("shop.orders", "w"), rendering.V1)
    with psycopg.connect(shop.dsn) as connection:
        columns = "result, table_id, version, chronolake.micros(recorded_at)"
        query = f"SELECT {columns} FROM chronolake.outcome WHERE request_id = 'begun'"
        [[stored, *place]] = connection.execute(query).fetchall()
    tampering.tamper(
        shop.dsn, f"UPDATE outcome SET result = '\\x{unpack(stored, *place).hex()}' WHERE request_id = 'begun'"
    )
    assert shop.ask("begun", BeginInstant("shop.orders", "w"), rendering.V1) == first
