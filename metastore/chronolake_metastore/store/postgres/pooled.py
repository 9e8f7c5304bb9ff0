"""Connections of a pool, for reads and notes. Their statements travel by libpq's pipeline.

SQLAlchemy keeps the pool. The same statement by its own connection takes twice the processor's time, and the
beginning of a transaction travels with the first one here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from chronolake_metastore.store.postgres.connections import BoundedConnection, StatementResult

_NO_PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType({})


class FoundRows(list[tuple[Any, ...]]):
    """The rows that a statement gave; ``changed`` is how many rows it inserted, changed or deleted."""

    changed: int

    @classmethod
    def of(cls, result: StatementResult) -> FoundRows:
        """The rows of an answer."""
        rows = cls(result.rows)
        number = result.tag.rpartition(" ")[2]
        rows.changed = int(number) if number.isdigit() else 0
        return rows

    def one(self) -> tuple[Any, ...]:
        """The only row; raises ``ValueError`` if there are none, or several."""
        [row] = self
        return row

    def one_or_none(self) -> tuple[Any, ...] | None:
        """The only row, if there is one; raises ``ValueError`` if there are several."""
        return self.one() if self else None

    def scalar_one(self) -> Any:
        """The value of the only row."""
        [value] = self.one()
        return value

    def scalar_one_or_none(self) -> Any:
        """The value of the only row, if there is one."""
        return self.scalar_one() if self else None


class Connection:
    """A connection that belongs to its user until it goes back to the pool.

    ``begin`` begins the transaction, with the first statement; without it each statement is one of its own. The
    pool rolls back what is not committed.
    """

    def __init__(self, connection: BoundedConnection, begin: str | None) -> None:
        self._connection = connection
        self._begin = begin
        self._is_open = False

    @property
    def mark(self) -> str | None:
        """The mark of its session (``sessions``)."""
        return self._connection.mark

    async def execute(self, statement: str, parameters: Mapping[str, Any] = _NO_PARAMETERS) -> FoundRows:
        """Run a statement; ``%(name)s`` in it is a parameter. Raises ``psycopg.Error``."""
        [rows] = await self.execute_together([(statement, parameters)])
        return rows

    async def execute_together(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[FoundRows]:
        """Run statements, with their parameters, in one round trip; gives the rows of each."""
        beginning = [] if self._begin is None or self._is_open else [(self._begin, _NO_PARAMETERS)]
        self._is_open = True
        answered = await self._connection.run_together([*beginning, *statements])
        return [FoundRows.of(result) for result in answered[len(beginning) :]]

    async def commit(self) -> None:
        """Commit, if a transaction is open. The next statement begins another one."""
        if self._begin is not None and self._is_open:
            self._is_open = False
            await self._connection.run_together([("COMMIT", _NO_PARAMETERS)])

    async def close(self) -> None:
        """Close it: the pool makes another one in its place."""
        await self._connection.close()
