"""Early conflict detection: a marker is refused when another instant has marked its file group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Table, marker, refused, write_stat

EARLY = {"markers.early-conflict-detection": "true"}


@pytest.fixture
def early(shared_http: httpx.Client) -> Table:
    """A copy-on-write table that detects conflicts early."""
    return rest.make_table(shared_http, properties=EARLY)


def test_a_group_that_a_live_pending_instant_has_marked_is_refused(early: Table) -> None:
    winner, loser = early.begun(), early.begun()
    early.marked(winner, marker(winner, 1), marker(winner, 2))

    problem = refused(
        early.mark(loser, marker(loser, 0), marker(loser, 1), marker(loser, 2)), 409, "write-conflict"
    )

    assert problem["context"]["winner"] == winner
    assert problem["context"]["winner_state"] == "inflight"
    assert [group["file_id"][:8] for group in problem["context"]["file_groups"]] == ["00000001", "00000002"]
    assert early.markers(loser) == []


def test_a_group_written_by_an_instant_that_completed_since_is_refused(early: Table) -> None:
    loser, winner = early.begun(), early.begun()
    early.complete(winner, write_stat(winner))

    problem = refused(early.mark(loser, marker(loser)), 409, "write-conflict")

    assert (problem["context"]["winner"], problem["context"]["winner_state"]) == (winner, "completed")


def test_the_rollback_of_the_marking_instant_frees_its_file_group(early: Table) -> None:
    first, second = early.begun(), early.begun()
    early.marked(first, marker(first))
    early.roll_back(first)

    assert early.marked(second, marker(second)) == ["created"]


def test_an_instant_whose_lease_has_ended_holds_no_group(server: ServerProcess, dsn: str) -> None:
    with rest.connect(server.url) as http:
        early = rest.make_table(http, properties=EARLY)
        dead, live = early.begun(lease_seconds=5), early.begun()
        early.marked(dead, marker(dead))
        refused(early.mark(live, marker(live)), 409, "write-conflict")

        database.pass_time(dsn, 10)

        assert early.marked(live, marker(live)) == ["created"]


def test_of_instants_that_mark_one_group_at_the_same_moment_exactly_one_wins(
    shared_servers: tuple[ServerProcess, ServerProcess],
) -> None:
    with rest.connect(shared_servers[0].url) as http:
        early = rest.make_table(http, properties=EARLY)
        rounds = [[early.begun() for _ in range(8)] for _ in range(10)]

    won = asyncio.run(_race(shared_servers, early.name, rounds))

    assert won == [1] * len(rounds)


async def _race(servers: Sequence[ServerProcess], table: str, rounds: Sequence[Sequence[str]]) -> list[int]:
    """Have all instants of each round mark the round's group at once: how many could."""
    async with httpx.AsyncClient(timeout=rest.TIMEOUT_SECONDS) as http:
        won = []
        for bucket, instants in enumerate(rounds):
            answers = await asyncio.gather(
                *(
                    http.post(
                        f"{servers[number % 2].url}/v1/tables/{table}/instants/{instant}/markers",
                        json={"markers": [marker(instant, bucket % 4)]},
                    )
                    for number, instant in enumerate(instants)
                )
            )
            won.append(sum(answer.status_code == 200 for answer in answers))
            await asyncio.gather(
                *(
                    http.post(
                        f"{servers[0].url}/v1/tables/{table}/instants/{instant}/rollback", json={"writer": "w"}
                    )
                    for instant in instants
                )
            )
        return won
