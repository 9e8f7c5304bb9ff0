"""A consistent cut: the states of many tables at one position of the log, which readers take as a time."""

from __future__ import annotations

from typing import Final, Protocol, Self

import msgspec

from chronolake_model import decoding
from chronolake_model.names import split_table_name
from chronolake_model.tables import Table
from chronolake_model.times import Moment, Tick

CUT_TABLES_MAX: Final = 100
"""The most tables that a request for a cut names; a namespace may have more, in pages."""


class DefinedTable(Protocol):
    """A table of the client, which has a definition."""

    @property
    def definition(self) -> Table:
        """The definition."""


class TableAtCut(msgspec.Struct, frozen=True):
    """The state of a table at a position of the log, up to the ``version`` of its own log.

    ``as_of`` is the completion time to read it as of: its last completion, or before the first one a time at
    which nothing had completed. ``table`` is its name when the cut was taken.
    """

    table: str
    table_id: str
    version: int
    as_of: str
    schema_version: int
    tick: Tick


class Cut(msgspec.Struct, frozen=True):
    """The states of tables at one ``position`` of the log, in the order of the tables' ids.

    An event is in the cut if and only if it is before the position, in the order of the log of all tables. The
    position is a cursor over all tables: the events after it are those that the cut lacks. ``caught_up`` says
    that the log had no further events; otherwise a transaction that was open kept them back. A page; the next
    one is of the same position.
    """

    position: str
    caught_up: bool
    tables: list[TableAtCut]
    next_cursor: str | None = None

    def table(self, table: DefinedTable | Table | str) -> TableAtCut:
        """The state of a table, found by its id, or of the one that has this name in the cut.

        The table is one of the client or its definition. Raises ``ValueError`` if the cut does not have it.
        """
        if not isinstance(table, (Table, str)):
            table = table.definition
        for state in self.tables:
            if table == state.table if isinstance(table, str) else table.table_id == state.table_id:
                return state
        name = table if isinstance(table, str) else f"{table.name} ({table.table_id})"
        raise ValueError(f"the cut at {self.position} does not have the table {name}: take a cut that has it")

    def as_of(self, table: DefinedTable | Table | str) -> str:
        """The completion time, in digits, to read a table as of; see ``table``."""
        return self.table(table).as_of

    def to_json(self) -> str:
        """The cut as a text, for another process; each ``as_of`` takes the text too."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The cut in a text of ``to_json``; raises ``ValueError``."""
        try:
            return decoding.decode(text, cls)
        except msgspec.MsgspecError as exc:
            raise ValueError(f"this is not the JSON of a cut: {exc}") from exc


AsOf = Moment | Cut
"""The state to read: a completion time, a cut, or the JSON of a cut."""


def moment_of(as_of: AsOf | None, table: Table) -> Moment | None:
    """The completion time at which a table has the state ``as_of``. A time stays as it is.

    Raises ``ValueError`` for a cut without the table.
    """
    if isinstance(as_of, str) and is_json(as_of):
        as_of = Cut.from_json(as_of)
    return as_of.as_of(table) if isinstance(as_of, Cut) else as_of


def is_json(text: str) -> bool:
    """Whether a text is meant as the JSON of a cut, and not as a time."""
    return text.lstrip().startswith("{")


def names_of(tables: str) -> list[str]:
    """The names in a list with commas, each once; raises ``ValueError`` for what is no name, and too many."""
    names = list(dict.fromkeys(tables.split(",")))
    for name in names:
        split_table_name(name)
    if len(names) > CUT_TABLES_MAX:
        raise ValueError(f"a cut names {CUT_TABLES_MAX} tables at most, not {len(names)}: give a namespace")
    return names
