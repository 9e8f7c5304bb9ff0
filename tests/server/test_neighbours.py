"""Two tables in neighbouring folders, one of which attacks the other: the files of the other stay.

Their instants have the same times, so their files have the same names. ``test_base_paths`` tests that no second
table gets the folder of the first; ``tests/storage`` has links and attacks on the guard itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import chronolake
from chronolake_storage import claims
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import rest, stored
from tests.server.deleting import DELETES, OTHERS, completes, planned_clean
from tests.server.rest import Json, refused, succeeded, write_stat
from tests.server.stored import StoredTable, path_of

RESERVATIONS = 4
"""Requests of 1,000 instants each: 4 s of a table's clock."""
LINK = "day=link"
"""A partition of the attacker that is a link to the one in which the victim has its file."""


class Neighbours(msgspec.Struct, frozen=True):
    """The table that is attacked, with one published file, and the one that attacks.

    Both have an instant of the time ``instant``; the attacker's is requested.
    """

    victim: StoredTable
    attacker: StoredTable
    instant: str
    published: Json

    def outside(self) -> list[str]:
        """The published file of the victim, as paths relative to the attacker's folder."""
        path = path_of(self.published)
        return [f"../a/{path}", f"/../a/{path}", f"day=0/../../a/{path}"]

    def linked(self) -> Json:
        """The published file of the victim, as the attacker sees it by a link."""
        return self.published | {"partition_path": LINK}

    def is_untouched(self) -> bool:
        """Whether the victim has all of its files."""
        return self.victim.paths() == sorted([OTHERS, path_of(self.published)])


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that deletes, and lets the clocks of tables run ahead."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    server = ServerProcess(shared_dsn, log, *DELETES, "--drift-max-ms", "60000", "--reaper-seconds", "0")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def neighbours(server: ServerProcess, tmp_path: Path) -> Iterator[Neighbours]:
    with rest.connect(server.url) as http:
        yield _make(http, tmp_path)


def _make(http: httpx.Client, tmp_path: Path) -> Neighbours:
    victim, attacker = (stored.make(http, Store(str(tmp_path / "lake" / name), None)) for name in "ab")
    reserved = [_reserved(attacker) for _ in range(RESERVATIONS)]
    instant = victim.begun()
    assert instant in {time for times in reserved for time in times}
    [published] = victim.wrote(instant, files=1)
    succeeded(victim.complete(instant, write_stat(instant, 0, published["partition_path"])))
    (tmp_path / "lake" / "b" / LINK).symlink_to(tmp_path / "lake" / "a" / published["partition_path"])
    return Neighbours(victim, attacker, instant, published)


@pytest.fixture
def linked(server: ServerProcess, tmp_path: Path) -> Iterator[Neighbours]:
    """Two tables whose folders become one by a link that is made after the tables: see ``_link``."""
    root = tmp_path / "lake"
    root.mkdir()
    with rest.connect(server.url) as http:
        victim, attacker = (
            stored.declare(http, Store(str(root / name / "a"), None)) for name in ("real", "alias")
        )
        reserved = [_reserved(attacker) for _ in range(RESERVATIONS)]
        instant = victim.begun()
        assert instant in {time for times in reserved for time in times}
        yield Neighbours(victim, attacker, instant, stored.marker_of(instant, 0))


def _link(linked: Neighbours) -> None:
    """Make the folder that the attacker's lies in a link to that of the victim."""
    Path(linked.attacker.store.base_path).parent.symlink_to("real")


def _attack(linked: Neighbours, server: ServerProcess) -> str:
    """Mark the published file in the attacker's instant, roll that back, and give why it was not executed."""
    linked.attacker.marked(linked.instant, linked.published)
    succeeded(linked.attacker.roll_back(linked.instant, execute=False))

    def refusals() -> list[str]:
        return [
            line for line in server.log().splitlines() if "given back" in line and linked.attacker.name in line
        ]

    wait_until(lambda: refusals() != [])
    return refusals()[0]


def _failed_deletions(server: ServerProcess) -> float:
    [line] = [
        line
        for line in httpx.get(f"{server.url}/metrics", verify=False).text.splitlines()
        if line.startswith("chronolake_deletions_failed_total ")
    ]
    return float(line.split()[1])


def _reserved(table: StoredTable) -> list[str]:
    page = succeeded(table.begin(count=1_000, inflight=False, lease_seconds=1))
    return [instant["requested_time"] for instant in page["instants"]]


def _end_reserved(table: StoredTable) -> None:
    """Roll back all instants that are pending: they would hold up every clean."""
    path = f"/v1/tables/{table.name}"
    savepoint = succeeded(table.http.post(f"{path}/savepoints", json={"writer": "w"}))["requested_time"]
    succeeded(table.http.post(f"{path}/restore", json={"writer": "w", "savepoint": savepoint}))
    released = table.http.post(f"{path}/savepoints/{savepoint}/release", json={"writer": "w"})
    succeeded(released)


def test_a_rollback_deletes_no_file_of_a_neighbour(neighbours: Neighbours) -> None:
    attacker, instant = neighbours.attacker, neighbours.instant
    for path in neighbours.outside():
        folder, _, name = path.rpartition("/")
        marker = {"partition_path": folder, "file_name": name, "kind": "CREATE"}
        refused(attacker.mark(instant, marker), 422, "invalid-marker")
    [own] = attacker.wrote(instant, files=1)
    attacker.marked(instant, neighbours.linked())

    rollback = succeeded(attacker.roll_back(instant, execute=False))["rolled_back_by"]

    wait_until(lambda: path_of(own) not in attacker.paths())
    wait_until(lambda: attacker.markers(instant) == [neighbours.linked()])
    assert neighbours.is_untouched()
    assert not attacker.is_completed(rollback)


def test_a_sweep_deletes_no_file_of_a_neighbour(neighbours: Neighbours) -> None:
    attacker, instant = neighbours.attacker, neighbours.instant
    attacker.marked(instant, neighbours.published)
    for path in neighbours.outside():
        folder, _, name = path.rpartition("/")
        answer = attacker.report(instant, {"partition_path": folder, "file_name": name})
        refused(answer, 422, "invalid-deletion")
    completes(attacker, succeeded(attacker.roll_back(instant, execute=False))["rolled_back_by"])

    attacker.storage.create_empty(path_of(neighbours.published))
    wait_until(lambda: path_of(neighbours.published) not in attacker.paths())
    wait_until(lambda: attacker.unswept(grace_seconds=0) == [])

    assert neighbours.is_untouched()


def test_a_sweep_follows_no_link_to_a_neighbour(server: ServerProcess, neighbours: Neighbours) -> None:
    attacker, instant = neighbours.attacker, neighbours.instant
    attacker.marked(instant, neighbours.linked())
    succeeded(attacker.report(instant, neighbours.linked()))

    succeeded(attacker.roll_back(instant, execute=False))

    wait_until(lambda: any(attacker.name in line for line in warnings(server)))
    assert neighbours.is_untouched()


def warnings(server: ServerProcess) -> list[str]:
    """The server's log lines of tables whose files it could not delete."""
    return [line for line in server.log().splitlines() if "table cannot be reached" in line]


def test_a_clean_deletes_no_file_of_a_neighbour(neighbours: Neighbours) -> None:
    attacker, instant = neighbours.attacker, neighbours.instant
    partition = neighbours.published["partition_path"]
    succeeded(attacker.inflight(instant))
    for folder in (f"../a/{partition}", f"day=0/../../a/{partition}"):
        refused(attacker.complete(instant, write_stat(instant, 0, folder)), 422, "invalid-write-stat")
    attacker.storage.create_empty(path_of(neighbours.published))
    succeeded(
        attacker.complete(
            instant, *(write_stat(instant, 0, partition_path) for partition_path in (partition, LINK))
        )
    )
    _end_reserved(attacker)
    later = attacker.begun()
    succeeded(
        attacker.complete(
            later, *(write_stat(later, 0, partition_path) for partition_path in (partition, LINK))
        )
    )

    clean = planned_clean(attacker, retain_commits=None, retain_versions=1)

    wait_until(lambda: path_of(neighbours.published) not in attacker.paths())
    wait_until(lambda: attacker.state(clean) == "requested")
    assert neighbours.is_untouched()


def test_a_rollback_follows_no_later_link_to_a_table_without_a_claim(
    server: ServerProcess, linked: Neighbours
) -> None:
    victim, instant = linked.victim, linked.instant
    _link(linked)
    victim.wrote(instant, files=1)
    succeeded(victim.complete(instant, write_stat(instant, 0, linked.published["partition_path"])))
    before = _failed_deletions(server)

    reason = _attack(linked, server)

    assert victim.paths() == [path_of(linked.published)]
    assert f"overlaps {victim.store.base_path} of the table {victim.name}" in reason
    assert _failed_deletions(server) > before
    assert victim.storage.size_bytes(claims.PATH) is None


def test_a_rollback_deletes_no_file_that_the_python_client_published_before_the_link(
    server: ServerProcess, linked: Neighbours
) -> None:
    victim, instant, marker = linked.victim, linked.instant, linked.published
    with chronolake.connect(server.url) as client:
        write = client.table(victim.name).write(instant)
        write.mark(
            chronolake.Marker(marker["partition_path"], marker["file_name"], chronolake.MarkerKind.CREATE)
        )
        victim.storage.create_empty(path_of(marker))
        write.complete([chronolake.WriteStat(**write_stat(instant, 0, marker["partition_path"]))])

    _link(linked)
    reason = _attack(linked, server)

    assert victim.paths() == [path_of(marker)]
    assert f"is claimed by the table {victim.name}" in reason
