"""One round: writers, readers and followers over several servers, and a nemesis; then the check."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import httpx

from tests.fix_server import ServerProcess
from tests.history.checker import check
from tests.history.findings import Finding
from tests.history.followers import Follower, StreamFollower
from tests.history.nemesis import Nemesis, Trouble
from tests.history.operators import Operator
from tests.history.readers import Reader
from tests.history.recorder import Habits, Recorder
from tests.history.records import Change, Command, Event, Group, History, Log
from tests.history.writers import Target, Writer
from tests.server import database, rest

TARGETS = (
    Target("orders", buckets=16),
    Target("visits", buckets=8),
    Target("stock", buckets=48, tick="1us"),
    Target("clicks", buckets=8, is_merge_on_read=True),
)
READERS = 8
OPERATORS = 2
SECOND = "_2"
"""The suffix of the second namespace."""
FREE_NAMES = ("archive", "orders_new", "orders_old")
"""Names beside those that the tables have at first."""
LOOK_SECONDS = 0.5
LOOKS_MAX = 180
BEYOND_SECONDS_MAX = 180.0
"""Seconds beyond its length that a round may take to meet its required events and to end."""


@dataclass
class Plan:
    """How a round goes; with the same seed the clients mean to do the same."""

    seed: int
    seconds: float
    clients: int
    troubles: Sequence[Trouble] = tuple(Trouble)
    to_happen: Sequence[str] = ()
    """Events that must each occur once before the round ends, by the names of ``History.figures``."""
    habits: Habits = field(default_factory=Habits)


@dataclass
class Round:
    """The result of a round."""

    plan: Plan
    history: History
    log: Log
    findings: list[Finding]
    troubles: Counter[Trouble]

    def figures(self) -> Counter[str]:
        """Counts of everything in the round, so that an empty round is noticed."""
        counted = self.history.figures() + Counter(map(str, self.troubles.elements()))
        counted["clients"] = self.plan.clients
        counted["events"] = len(self.log)
        counted["leases that ended"] = sum(event.request_id.startswith("reaper-") for event in self.log)
        counted["findings"] = len(self.findings)
        return counted

    def report(self) -> str:
        """The figures and the findings, for the reader of a test's output."""
        figures = [f"{count:>10} {name}" for name, count in sorted(self.figures().items())]
        return "\n".join([f"seed {self.plan.seed}", *figures, *map(str, self.findings[:40])])


async def play(servers: Sequence[ServerProcess], dsn: str, plan: Plan) -> Round:
    """Play a round on tables of its own; its servers run before and after it."""
    print(f"history: seed {plan.seed}")
    rng = random.Random(plan.seed)
    history = History()
    nemesis = Nemesis(servers, dsn, random.Random(rng.random()))
    targets = await asyncio.to_thread(_make_tables, servers[0].url)
    tables = {target.table_id: target.name for target in targets}
    names = _names(targets)
    async with asyncio.timeout(plan.seconds + BEYOND_SECONDS_MAX), AsyncExitStack() as stack:

        async def recorder() -> Recorder:
            urls = [server.url for server in servers]
            made = Recorder(urls, random.Random(rng.random()), plan.habits, history, dict(tables))
            return await stack.enter_async_context(made)

        # Keys begin with the name, and must be new to the log: a seed may be played again on the same database.
        writers = [Writer(f"{uuid.uuid4()}", await recorder(), targets) for _ in range(plan.clients)]
        readers = [
            Reader(f"reader {number}", await recorder(), list(tables), names) for number in range(READERS)
        ]
        operators = [
            Operator(f"{uuid.uuid4()}", await recorder(), list(tables), names) for _ in range(OPERATORS)
        ]
        followers = [
            kind(f"{kind.__name__} of {table_id or 'all tables'}", await recorder(), table_id)
            for table_id in (None, *tables)
            for kind in (Follower, StreamFollower)
        ]
        senders: list[Writer | Operator] = [*writers, *operators]
        await _run(plan, nemesis, history, [*senders, *readers, *followers])
        log = await asyncio.to_thread(read_log, dsn)
        await _follow_to_the_end(followers, log)
        await _look_up(history, log, [client.recorder for client in senders])
    log = await asyncio.to_thread(read_log, dsn)
    findings = await asyncio.to_thread(check, history, log)
    return Round(plan, history, log, findings, nemesis.troubles)


async def _run(
    plan: Plan, nemesis: Nemesis, history: History, clients: Sequence[Writer | Operator | Reader | Follower]
) -> None:
    stopping = asyncio.Event()
    ending = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run(stopping))
        troubling = tasks.create_task(nemesis.run(plan.troubles, ending))
        await asyncio.sleep(plan.seconds)
        await _wait_for(plan.to_happen, history)
        ending.set()
        await troubling
        stopping.set()


async def _wait_for(names: Sequence[str], history: History) -> None:
    # The test reports an event that never occurs, with all figures.
    for _ in range(LOOKS_MAX):
        if all(history.figures()[name] for name in names):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _follow_to_the_end(followers: Sequence[Follower], log: Log) -> None:
    # The servers may append more, when leases end; the last event at the stop of the writers is enough.
    async with asyncio.TaskGroup() as tasks:
        for follower in followers:
            last = [event for event in log if follower.table_id in (None, event.table_id)][-1]
            tasks.create_task(follower.finish(last.place))


async def _look_up(history: History, log: Log, recorders: Sequence[Recorder]) -> None:
    """Look up the outcome of each command that took effect, but whose answers were lost."""
    logged = {event.request_id for event in log}
    unknown = [command for command in history.commands if command.returned is None and command.key in logged]

    async def look_up_all(recorder: Recorder, commands: Sequence[Command]) -> None:
        for command in commands:
            await recorder.look_up(command)

    async with asyncio.TaskGroup() as tasks:
        for number, recorder in enumerate(recorders):
            tasks.create_task(look_up_all(recorder, unknown[number :: len(recorders)]))


def _make_tables(url: str) -> list[Target]:
    namespace = f"ns_{uuid.uuid4().hex[:12]}"
    targets = []
    with httpx.Client(base_url=url, timeout=rest.TIMEOUT_SECONDS) as http:
        for target in TARGETS:
            kind = "merge_on_read" if target.is_merge_on_read else "copy_on_write"
            buckets = {"type": "bucket", "buckets": target.buckets}
            name = f"{namespace}.{target.name}"
            rest.make_table(http, name, type=kind, index=buckets, tick=target.tick)
            table = rest.succeeded(http.get(f"/v1/tables/{name}"))
            targets.append(replace(target, name=name, table_id=table["table_id"]))
        rest.succeeded(http.post("/v1/namespaces", json={"name": f"{namespace}{SECOND}"}))
    return targets


def _names(targets: Sequence[Target]) -> list[str]:
    """The names that the tables may have, in two namespaces."""
    namespace = targets[0].name.partition(".")[0]
    free = [f"{within}.{name}" for within in (namespace, f"{namespace}{SECOND}") for name in FREE_NAMES]
    return [*(target.name for target in targets), *free]


def read_log(dsn: str) -> Log:
    """The log of all tables, past the servers, in the order across tables."""
    rows = database.query(
        dsn,
        """
        SELECT
            e.table_id::text, e.version, e.type,
            e.request_id, e.payload ->> 'action' AS action, encode(e.hash, 'hex') AS hash,
            to_char(e.time, 'YYYYMMDDHH24MISSUS') AS time, to_char(e.instant, 'YYYYMMDDHH24MISSUS') AS instant,
            coalesce(t.definition ->> 'tick', '1ms') AS tick,
            CASE WHEN e.type IN ('TableCreated', 'TableAltered') THEN e.payload END AS change,
            array(SELECT ARRAY[w.kind, w.partition_path, w.file_id] FROM write_stat w
                WHERE w.table_id = e.table_id AND w.version = e.version) AS files
        FROM event e
        LEFT JOIN lake_table t USING (table_id)
        ORDER BY e.transaction_id, e.position
        """,
    )
    return [_event(row) for row in rows]


def _event(row: database.Row) -> Event:
    digits = 17 if row["tick"] == "1ms" else 20
    return Event(
        table_id=row["table_id"],
        version=row["version"],
        type=row["type"],
        time=row["time"][:digits],
        request_id=row["request_id"],
        instant=None if row["instant"] is None else row["instant"][:digits],
        action=row["action"],
        groups=_groups(row, "base"),
        appended=_groups(row, "log"),
        change=None if row["change"] is None else _change(row["type"], row["change"]),
        hash=row["hash"],
    )


def _change(event_type: str, payload: rest.Json) -> Change:
    if event_type == "TableCreated":
        return Change(payload["definition"]["name"], payload["definition"]["properties"])
    return Change(payload["new_name"], payload["set"], tuple(payload["unset"]))


def _groups(row: database.Row, kind: str) -> frozenset[Group]:
    return frozenset((partition, file_id) for row_kind, partition, file_id in row["files"] if row_kind == kind)
