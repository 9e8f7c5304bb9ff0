"""Which batches of a stream count as written. Without Spark."""

from __future__ import annotations

import pytest

from chronolake_model.instants import Instant, StreamPlace
from chronolake_model.vocabulary import Action, Operation, State
from chronolake_spark import errors
from chronolake_spark.stream import replays
from chronolake_spark.stream.replays import Planned

QUERY = "5bd38cd9-4f1c-4e56-9f3e-2f7c3ad2c5a1"


def last(checkpoint: int, query: str | None = QUERY, planned_ms: int | None = None) -> Instant:
    """The last completed instant of a stream."""
    return Instant(
        table="shop.orders",
        requested_time="20260101000000000",
        completion_time="20260101000001000",
        action=Action.COMMIT,
        operation=Operation.UPSERT,
        state=State.COMPLETED,
        writer="driver",
        lease_seconds=60,
        lease_expires_at=None,
        rollback_reason=None,
        summary=None,
        extra_metadata=replays.metadata(query, Planned(checkpoint, planned_ms)),
        version=1,
        stream=StreamPlace("orders", 1, checkpoint),
    )


@pytest.mark.parametrize(
    ("batch", "instant", "query", "is_written"),
    [
        (0, None, QUERY, False),
        (4, last(3), QUERY, False),
        (4, last(3), "another", False),
        (3, last(3), QUERY, True),
        (3, last(3), None, True),
        (3, last(3, None), QUERY, True),
    ],
)
def test_the_last_batch_of_the_query_is_written(
    batch: int, instant: Instant | None, query: str | None, is_written: bool
) -> None:
    assert replays.has_completed("orders", Planned(batch), instant, query, "fail") is is_written


@pytest.mark.parametrize(
    ("batch", "query", "why"),
    [
        (2, QUERY, "the checkpoint folder is an older copy"),
        (2, None, "the checkpoint folder is an older copy"),
        (
            3,
            "another",
            f"written by the query {QUERY}.*this is the query another, which has another checkpoint",
        ),
        (0, "another", r"Continue with the folder that the stream was last written with; .* 'skip'"),
    ],
)
def test_a_batch_that_may_have_other_rows_is_refused_or_skipped(
    batch: int, query: str | None, why: str
) -> None:
    with pytest.raises(errors.StreamMismatch, match=why):
        replays.has_completed("orders", Planned(batch), last(3), query, "fail")
    assert replays.has_completed("orders", Planned(batch), last(3), query, "skip")


@pytest.mark.parametrize(("written", "given"), [(7, 7), (7, None), (None, 7)])
def test_the_last_batch_is_written_if_spark_has_not_planned_it_again(
    written: int | None, given: int | None
) -> None:
    assert replays.has_completed("orders", Planned(3, given), last(3, planned_ms=written), QUERY, "fail")


def test_the_last_batch_with_another_plan_is_refused_or_skipped() -> None:
    batch, instant = Planned(3, 1_767_225_600_500), last(3, planned_ms=1_767_225_600_000)
    with pytest.raises(
        errors.StreamMismatch, match=r"planned at 2026-01-01 00:00:00.000 UTC.* at 2026-01-01 00:00:00.500 UTC"
    ):
        replays.has_completed("orders", batch, instant, QUERY, "fail")
    assert replays.has_completed("orders", batch, instant, QUERY, "skip")
    assert not replays.has_completed("orders", Planned(4, 0), instant, QUERY, "fail")


def test_ids_of_queries_are_told_from_names() -> None:
    assert replays.is_query_id(QUERY)
    assert not replays.is_query_id("orders")
