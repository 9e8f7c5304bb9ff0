"""Times that requests name: completion times are looked up by them, and some are far from now."""

from __future__ import annotations

import httpx
import pytest

from chronolake_model.instants import REQUESTED_TIMES_MAX
from tests.forked_program import run
from tests.server import rest

NEVER = "20000101000000000"


def looked_up(http: httpx.Client, table: rest.Table, times: list[str]) -> httpx.Response:
    return http.post(f"/v1/tables/{table.name}/completion-times", json={"requested_times": times})


def test_completion_times_are_answered_in_request_order_for_instants_of_any_state(
    shared_http: httpx.Client, table: rest.Table
) -> None:
    first, pending, last = table.begun(), table.begun(), table.begun()
    ends = [rest.succeeded(table.complete(time))["completion_time"] for time in (last, first)]
    answer = looked_up(shared_http, table, [first, NEVER, pending, last, first])
    assert rest.succeeded(answer)["completion_times"] == [ends[1], None, None, ends[0], ends[1]]


def test_the_times_of_another_table_are_not_found(shared_http: httpx.Client, table: rest.Table) -> None:
    time = table.begun()
    rest.succeeded(table.complete(time))
    other = rest.make_table(shared_http)
    assert rest.succeeded(looked_up(shared_http, other, [time]))["completion_times"] == [None]


def test_a_request_names_at_most_ten_thousand_times(shared_http: httpx.Client, table: rest.Table) -> None:
    most = looked_up(shared_http, table, [NEVER] * REQUESTED_TIMES_MAX)
    assert rest.succeeded(most)["completion_times"] == [None] * REQUESTED_TIMES_MAX
    rest.refused(looked_up(shared_http, table, [NEVER] * (REQUESTED_TIMES_MAX + 1)), 400, "invalid-request")


@pytest.mark.parametrize(
    "time", ["00010101000000001", "22550605234734740991", "99991231235959999", "99991231235959999999"]
)
def test_a_refusal_of_a_time_far_away_is_proved_as_it_was_recorded(
    shared_dsn: str, shared_http: httpx.Client, table: rest.Table, time: str
) -> None:
    answer = shared_http.post(f"/v1/tables/{table.name}/instants/{time}/heartbeat", json={"writer": "w"})

    assert answer.status_code == 404, answer.text
    run("verify", "--dsn", shared_dsn).check_returncode()
