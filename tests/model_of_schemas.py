"""The schema of one table in plain Python, to hold the server against: it shares no code with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn, SchemaChange, SetNullable, WidenColumn

NAMES: Final = ("id", "ID", "name", "Name", "at", "extra")
TYPES: Final = ("tinyint", "int", "bigint", "float", "double", "string", "decimal(4,2)", "decimal(9,2)")
_WIDER: Final = {
    ("tinyint", "int"),
    ("tinyint", "bigint"),
    ("int", "bigint"),
    ("float", "double"),
    ("decimal(4,2)", "decimal(9,2)"),
}

_names = st.sampled_from(NAMES)
_types = st.sampled_from(TYPES)
CHANGES: Final[st.SearchStrategy[list[SchemaChange]]] = st.lists(
    st.one_of(
        st.builds(AddColumn, _names, _types, st.sampled_from([True, True, True, False])),
        st.builds(RenameColumn, _names, _names),
        st.builds(WidenColumn, _names, _types),
        st.builds(SetNullable, _names, st.sampled_from([True, True, False])),
        st.builds(DropColumn, _names),
    ),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True)
class Column:
    """One column, by its field id."""

    id: int
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Columns:
    """All columns of a table; ``fixed`` are those by which records are placed and compared."""

    columns: tuple[Column, ...]
    fixed: frozenset[str]
    ids_given: int
    version: int = 1

    def after(self, changes: Sequence[SchemaChange]) -> Columns | None:
        """The next version, or none when one of the changes is refused."""
        now = self
        for change in changes:
            changed = now._with(change)
            if changed is None:
                return None
            now = changed
        return replace(now, version=self.version + 1)

    def _with(self, change: SchemaChange) -> Columns | None:
        if isinstance(change, AddColumn):
            added = Column(self.ids_given + 1, change.name, change.type, nullable=True)
            grown = replace(self, columns=(*self.columns, added), ids_given=self.ids_given + 1)
            return grown if change.nullable and not self._is_taken(change.name) else None
        old = next((column for column in self.columns if column.name == change.name), None)
        if isinstance(change, SetNullable):
            return self._put(old, nullable=True) if old and not old.nullable and change.nullable else None
        if old is None or old.name in self.fixed:
            return None
        if isinstance(change, WidenColumn):
            return self._put(old, type=change.type) if (old.type, change.type) in _WIDER else None
        others = replace(self, columns=tuple(column for column in self.columns if column is not old))
        if isinstance(change, DropColumn):
            return others
        is_taken = change.new_name == old.name or others._is_taken(change.new_name)
        return None if is_taken else self._put(old, name=change.new_name)

    def _put(self, old: Column, **changes: Any) -> Columns:
        new = replace(old, **changes)
        return replace(self, columns=tuple(new if column is old else column for column in self.columns))

    def _is_taken(self, name: str) -> bool:
        return name.lower() in {column.name.lower() for column in self.columns}
