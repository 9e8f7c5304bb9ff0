"""64 clients over three servers that die, freeze and lose their database: the records of the clients hold.

Promises 1 to 4 and 6 of docs/architecture.md, from the outside: the checker does not know the server's code.
`make test` plays a short round, `make test-long` a long one (LONG_SECONDS). With CHRONOLAKE_HISTORY_SEED
clients and faults plan the same again; the timing still depends on the machine.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.history import rounds
from tests.history.nemesis import Trouble
from tests.history.rounds import Plan, Round

CLIENTS = 64
SHORT_SECONDS = 10.0
LONG_SECONDS = float(os.environ.get("LONG_SECONDS", "240"))
TO_HAPPEN = (
    "attempts without an answer",
    "commands given up",
    "begin answered 201",
    "inflight answered 200",
    "heartbeat answered 200",
    "complete answered 200",
    "complete answered 409",
    "complete answered 410",
    "rollback answered 200",
    "rollback answered 409",
    "begin answered 404",
    "complete answered 404",
    "alter answered 200",
    "alter answered 409",
)
"""Events that a round must have met to prove anything, besides its faults."""


def _play(servers: list[ServerProcess], dsn: str, seconds: float) -> Round:
    seed = int(os.environ.get("CHRONOLAKE_HISTORY_SEED") or random.SystemRandom().getrandbits(32))
    played = asyncio.run(rounds.play(servers, dsn, Plan(seed, seconds, CLIENTS, to_happen=TO_HAPPEN)))
    print(played.report())
    return played


@pytest.fixture(scope="module")
def short_round(servers: list[ServerProcess], shared_dsn: str) -> Round:
    return _play(servers, shared_dsn, SHORT_SECONDS)


def test_a_short_history_keeps_every_promise(short_round: Round) -> None:
    assert short_round.findings == [], short_round.report()


def test_every_fault_and_every_required_event_occurred(short_round: Round) -> None:
    figures = short_round.figures()
    assert [name for name in (*Trouble, *TO_HAPPEN) if not figures[name]] == [], short_round.report()


def test_the_log_and_its_projections_verify_after_it(short_round: Round, shared_dsn: str) -> None:
    verified = run("verify", "--dsn", shared_dsn)
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.slow
def test_a_long_history_keeps_every_promise(servers: list[ServerProcess], shared_dsn: str) -> None:
    played = _play(servers, shared_dsn, LONG_SECONDS)

    assert played.findings == [], played.report()
