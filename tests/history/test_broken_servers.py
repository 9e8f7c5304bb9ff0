"""The checker finds out when a server is broken on purpose: else its silence would prove nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.history import rounds
from tests.history.broken_server import Mutation, program
from tests.history.conftest import serving
from tests.history.findings import Fault
from tests.history.nemesis import Trouble
from tests.history.rounds import Plan, Round

SERVERS = 2
CLIENTS = 24
SECONDS = 2.0
ROUNDS_MAX = 30
"""The first should do; a busy machine needs more."""


@pytest.mark.parametrize(
    ("mutation", "fault", "troubles"),
    [
        (Mutation.OWN_CLOCK, Fault.REAL_TIME, ()),
        pytest.param(Mutation.FORGETFUL, Fault.DOUBLED, (), marks=pytest.mark.slow),
        pytest.param(Mutation.HASTY_FEED, Fault.FEED_MISSED, (), marks=pytest.mark.slow),
        (Mutation.CARELESS, Fault.CONFLICT, ()),
        pytest.param(Mutation.TRUSTING, Fault.LOST, (Trouble.SEVER,), marks=pytest.mark.slow),
        pytest.param(Mutation.KEEPING, Fault.STALE, (), marks=pytest.mark.slow),
        (Mutation.KEEPING_NAMES, Fault.WRONG_NAME, ()),
        pytest.param(Mutation.UNCHECKED, Fault.WRONG_TABLE, (), marks=pytest.mark.slow),
    ],
    ids=[
        "own clock",
        "forgetful",
        "hasty feed",
        "careless",
        "trusting",
        "keeping",
        "keeping names",
        "unchecked",
    ],
)
def test_a_broken_server_is_detected(
    mutation: Mutation, fault: Fault, troubles: Sequence[Trouble], dsn: str, tmp_path: Path
) -> None:
    with serving(dsn, tmp_path, servers=SERVERS, program=program(mutation)) as servers:
        played: list[Round] = []
        while len(played) < ROUNDS_MAX and fault not in _faults(played):
            seed = random.SystemRandom().getrandbits(32)
            plan = Plan(seed, SECONDS, CLIENTS, troubles)
            played.append(asyncio.run(rounds.play(servers, dsn, plan)))

    assert fault in _faults(played), "\n".join(each.report() for each in played)


def _faults(played: list[Round]) -> set[Fault]:
    return {finding.fault for each in played for finding in each.findings}
