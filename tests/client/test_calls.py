"""The protocol as values: each call is sent as given, and pages make one answer."""

from __future__ import annotations

import msgspec
import pytest

from chronolake import calls
from chronolake_model import operations
from chronolake_model.files import ChangedFileGroup, Changes, CompletedInstant, FileSlice, Snapshot
from chronolake_model.instants import BeginInstant
from chronolake_model.vocabulary import Action, Direction, State

TIME = "20260102030405678"


def test_a_filter_sends_only_the_given_parameters_and_repeats_lists() -> None:
    wanted = calls.timeline.InstantFilter(
        state=(State.REQUESTED, State.INFLIGHT), requested_from=TIME, direction=Direction.DESCENDING
    )

    call = calls.timeline.list_instants("shop.orders", wanted, limit=20)

    assert call.path == "/v1/tables/shop.orders/instants"
    assert call.query == (
        ("state", "requested"),
        ("state", "inflight"),
        ("requested_from", TIME),
        ("order_by", "requested_time"),
        ("direction", "desc"),
        ("limit", "20"),
    )


def test_the_next_page_is_the_same_question_with_one_cursor() -> None:
    first = calls.files.changes("shop.orders", TIME, None)

    third = first.page_at("second").page_at("third")

    assert first.query == (("from", TIME), ("limit", "10000"))
    assert third.query == (*first.query, ("cursor", "third"))


def test_a_command_carries_its_body_and_a_question_none() -> None:
    body = BeginInstant("me@here:1", Action.DELTACOMMIT)

    begin = calls.call(operations.timeline.BEGIN_INSTANT, "shop.orders", body=body)

    assert begin.is_command
    assert msgspec.json.decode(begin.body or b"", type=BeginInstant) == body
    assert not calls.call(operations.catalog.GET_TABLE, "shop.orders").is_command
    assert calls.catalog.drop_table("shop.orders").is_command


@pytest.mark.parametrize(
    ("key", "segment"), [("load-1", "load-1"), ("a/b c", "a%2Fb%20c"), ("..", "%2E%2E"), ("100%", "100%25")]
)
def test_a_key_of_any_characters_is_one_segment_of_a_path(key: str, segment: str) -> None:
    assert calls.call(operations.catalog.GET_OUTCOME, key).path == f"/v1/outcomes/{segment}"


@pytest.mark.parametrize("key", ["", " a", "a ", "é", "a\n", "x" * 256])
def test_an_invalid_key_never_becomes_a_path(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency key"):
        calls.call(operations.catalog.GET_OUTCOME, key)


@pytest.mark.parametrize(
    "name", ["", "orders", "shop.orders.x", "shop/orders", "..", "shop.", "shop.a b", "shop.a\n"]
)
def test_an_invalid_table_name_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ValueError, match=r"namespace\.table"):
        calls.call(operations.catalog.GET_TABLE, name)


@pytest.mark.parametrize("name", ["", "shop.orders", "..", "a/b", "ä"])
def test_an_invalid_namespace_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="namespace"):
        calls.call(operations.catalog.DROP_NAMESPACE, name)


@pytest.mark.parametrize("time", ["", "2026", "..", "20261302030405678", TIME + "/complete"])
def test_an_invalid_instant_never_becomes_a_path(time: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        calls.call(operations.timeline.GET_INSTANT, "shop.orders", time)


def test_the_pages_of_a_snapshot_make_one_snapshot() -> None:
    first, second = (FileSlice("", f"0000000{n}", TIME, None, []) for n in (0, 1))
    pages = [Snapshot("shop.orders", TIME, [first], "more"), Snapshot("shop.orders", TIME, [second], None)]

    merged = calls.base.merge_pages(pages, "slices")

    assert merged == Snapshot("shop.orders", TIME, [first, second], None)


def test_an_instant_that_several_pages_of_changes_name_counts_once() -> None:
    instant = CompletedInstant(TIME, "20260102030405679")
    first, second = (ChangedFileGroup("", f"0000000{n}", None, None) for n in (0, 1))
    pages = [
        Changes("shop.orders", None, TIME, [instant], [first], "more"),
        Changes("shop.orders", None, TIME, [instant], [second], None),
    ]

    merged = calls.files.merge_changes(pages)

    assert merged == Changes("shop.orders", None, TIME, [instant], [first, second], None)
