"""State machines that send commands to a database of their own for each example, and how they are played."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from typing_extensions import override

from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.proof.archived_rows import ArchivedLogRows
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import packed_results
from chronolake_metastore.store.postgres.engine import Database
from tests.examples import ALL
from tests.store.dying import DyingSession

LONG_SECONDS: Final = float(os.environ.get("LONG_SECONDS", "240"))

SECOND_US: Final = 1_000_000

_Machine = TypeVar("_Machine", bound=RuleBasedStateMachine)


class DatabaseMachine(RuleBasedStateMachine):
    """Sends commands over a connection that dies on request."""

    new_database: Callable[[], str]
    archived: ArchivedLogRows | None = None
    """The rows that have left the database."""

    def __init__(self) -> None:
        super().__init__()
        dsn = self.new_database()
        self.admin = psycopg.connect(dsn, autocommit=True)
        self.admin.execute("SET search_path = chronolake")
        self.runner = asyncio.Runner()
        self.settings = Settings(dsn=dsn)
        self.database = Database(self.settings, ArchiveReader)
        self.session = DyingSession(self.database, self.sever)
        self.numbers = itertools.count()

    @override
    def teardown(self) -> None:
        self.runner.run(self.session.close())
        self.runner.run(self.database.close())
        self.runner.close()
        self.admin.close()

    def request(self, command: Command) -> Request:
        key = f"request-{next(self.numbers):06d}"
        return group.request_of(Context("test", key), command)

    def run(self, requests: Sequence[Request]) -> list[Result]:
        """The results of a group of commands, which share a transaction where they may."""
        return self.runner.run(group.run(self.session, requests, drift_max_us=SECOND_US)).results

    def sever(self, process: int) -> None:
        self.admin.execute("SELECT pg_terminate_backend(%s, 10000)", [process])

    def sql(self, statement: str) -> list[Any]:
        cursor = self.admin.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def recorded_outcomes(self) -> dict[tuple[UUID, int], tuple[str, str | None, bytes]]:
        """Request id, code and result of each outcome in the database, by its place in a chain."""
        rows = self.sql("""
            SELECT chain_id, number, request_id, code, result,
                table_id, version, chronolake.micros(recorded_at)
            FROM chronolake.outcome
        """)
        return {
            (chain_id, number): (request_id, code, packed_results.unpack(bytes(result), *place))
            for chain_id, number, request_id, code, result, *place in rows
        }


def on_real_database(machine: type[_Machine], new_database: Callable[[], str]) -> type[_Machine]:
    """The machine with its ``new_database``."""
    names: dict[str, Any] = {"new_database": staticmethod(new_database)}
    return type("OnRealDatabase", (machine,), names)


def play(
    machine: type[RuleBasedStateMachine], steps: int, examples: int = 10, *, derandomize: bool = False
) -> None:
    """Play examples of a number of steps, half of them in ``make test``.

    With ``derandomize`` they are the same in each run.
    """
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples if ALL else max(2, (examples + 1) // 2),
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


def play_long(machine: type[RuleBasedStateMachine], steps: int) -> None:
    """Play for ``LONG_SECONDS``."""
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        play(machine, steps, 50)
