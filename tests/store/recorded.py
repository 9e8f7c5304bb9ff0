"""A session that notes which statements it sends, by round trip."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

from typing_extensions import override

from chronolake_metastore import store
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.connections import BoundedConnection, StatementResult
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session, Statement

_FOLDER: Final = Path(store.__path__[0], "sql")
_NAMES: Final = {
    statements.load(name): name
    for path in _FOLDER.glob("*/*.sql")
    for name in [f"{path.parent.name}/{path.stem}"]
}
_WORDS: Final = 3


class RecordedSession(Session):
    """A session whose ``round_trips`` have the names of their statements."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.round_trips: list[list[str]] = []

    @override
    async def _connected(self) -> BoundedConnection:
        return cast(BoundedConnection, _Recorded(await super()._connected(), self.round_trips))


class _Recorded:
    """As much of a connection as a transaction uses."""

    def __init__(self, connection: BoundedConnection, round_trips: list[list[str]]) -> None:
        self._connection = connection
        self._round_trips = round_trips

    async def run_together(self, sent: Iterable[Statement]) -> list[StatementResult]:
        sent = list(sent)
        self._round_trips.append([name_of(sql) for sql, _ in sent])
        return await self._connection.run_together(sent)

    async def rollback(self) -> None:
        await self._connection.rollback()


def name_of(sql: str) -> str:
    """The name of the SQL file, or the first words of a statement that has none."""
    return _NAMES.get(sql) or " ".join(sql.split()[:_WORDS])
