"""Times that are far from now, in commands and in the proof of their outcomes."""

from __future__ import annotations

import httpx
import pytest

from tests.command_line import run
from tests.server import rest


@pytest.mark.parametrize(
    "time", ["00010101000000001", "22550605234734740991", "99991231235959999", "99991231235959999999"]
)
def test_a_refusal_of_a_time_far_away_is_proved_as_it_was_recorded(
    dsn: str, http: httpx.Client, time: str
) -> None:
    table = rest.make_table(http)

    answer = http.post(f"/v1/tables/{table.name}/instants/{time}/heartbeat", json={"writer": "w"})

    assert answer.status_code == 404, answer.text
    run("verify", "--dsn", dsn).check_returncode()
