"""A failover: servers whose DSN names both hosts go on with the promoted standby, whatever its clock shows.

test_copies.py has the identity of a promoted database, test_clock_jumps.py clocks that jump.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from psycopg.conninfo import make_conninfo

from chronolake_metastore.store.postgres import migrations
from tests import forked_program
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.faked_postgres import FakedPostgres

pytestmark = pytest.mark.slow

LEASE_SECONDS = 15
BOUND_SECONDS = 3
"""By how much a jump of the clock may change the end of a lease (docs/decisions/0002-time.md)."""


class Pair(NamedTuple):
    """A primary and its standby, and the DSN that names both."""

    primary: FakedPostgres
    standby: FakedPostgres
    dsn: str


def both_hosts(*uris: str) -> str:
    """One DSN of several; libpq takes the host that is the primary."""
    hosts = [parse_qs(urlsplit(uri).query)["host"][0] for uri in uris]
    return make_conninfo(uris[0], host=",".join(hosts), port="5432,5432", target_session_attrs="read-write")


@pytest.fixture(params=["+1d", "-1d"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as started:
        primary = FakedPostgres.make()
        started.callback(primary.stop)
        migrations.upgrade(primary.uri)
        standby = primary.standby(request.param)
        started.callback(standby.stop)
        # The standby first: a server that took the first host would find a database that only reads.
        yield Pair(primary, standby, both_hosts(standby.uri, primary.uri))


def _rolled_back_at(table: rest.Table, dead: str, live: str) -> float:
    """Renew the lease of a live writer until the instant of a dead one is rolled back; gives the time then."""
    deadline = time.monotonic() + 120
    while table.state(dead) != "rolled_back":
        assert time.monotonic() < deadline, "the lease of the dead writer does not end"
        rest.succeeded(table.heartbeat(live))
        time.sleep(0.2)
    return time.monotonic()


def test_leases_end_in_their_time_when_a_standby_with_another_clock_is_promoted(
    pair: Pair, new_server: Callable[..., ServerProcess]
) -> None:
    servers = [new_server(pair.dsn, "--reaper-seconds", "0.5") for _ in range(2)]
    with rest.connect(servers[0].url) as http, rest.connect(servers[1].url) as other:
        table = rest.make_table(http)
        live = table.begun(writer="live", lease_seconds=LEASE_SECONDS)
        began = time.monotonic()
        dead = table.begun(writer="dead", lease_seconds=LEASE_SECONDS)

        pair.primary.crash()
        pair.standby.promote()
        ended = _rolled_back_at(table, dead, live)
        rest.succeeded(table.complete(live, rest.write_stat(live)))

        # A lease that begins afterwards, at the other server.
        again = rest.Table(other, table.name)
        live = again.begun(writer="live", lease_seconds=LEASE_SECONDS)
        began_again = time.monotonic()
        dead = again.begun(writer="dead", lease_seconds=LEASE_SECONDS)
        ended_again = _rolled_back_at(again, dead, live)

    assert ended - began >= LEASE_SECONDS - BOUND_SECONDS
    assert ended_again - began_again >= LEASE_SECONDS - BOUND_SECONDS
    log = database.events(pair.standby.uri, table.name)
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(log))
    # A server that starts now goes on too: the others have recorded the promotion.
    assert httpx.get(f"{new_server(pair.dsn).url}/ready").status_code == 200
    assert forked_program.run("verify", "--dsn", pair.dsn).returncode == 0
