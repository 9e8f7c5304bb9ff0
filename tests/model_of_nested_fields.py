"""Nested fields of one table in plain Python, to compare the server with: it shares no code with it.

A field is a list: its id, its kind, and for a nested kind its fields by name. A kind is the name of a primitive
type, or ``struct``, ``array`` or ``map``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn, SchemaChange, WidenColumn

Kind = str | dict[str, Any]
"""A type without ids: the name of a primitive one, or a nested one's fields by name; ``""`` is its kind."""

NAMES: Final = ("a", "A", "b", "x.y", "element", "key", "value")
_WIDER: Final = {"int": ("bigint",), "float": ("double",)}

_primitives = st.sampled_from(["int", "bigint", "float", "string"])
_kinds: st.SearchStrategy[Kind] = st.recursive(
    _primitives,
    lambda inner: st.one_of(
        st.builds(lambda element: {"": "array", "element": element}, inner),
        st.builds(lambda key, value: {"": "map", "key": key, "value": value}, inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", "x.y"]), inner, min_size=1).map(
            lambda fields: {"": "struct", **fields}
        ),
    ),
    max_leaves=5,
)
_paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda names: ["c", *names])
CHANGES: Final = st.one_of(
    st.tuples(st.just("add"), _paths, _kinds),
    st.tuples(st.just("rename"), _paths, st.sampled_from(NAMES)),
    st.tuples(st.just("widen"), _paths, st.sampled_from(["bigint", "double"])),
    st.tuples(st.just("drop"), _paths, st.none()),
)
KINDS: Final = _kinds
Change = tuple[str, list[str], Any]


def text_of(kind: Kind) -> str:
    """The type as Spark writes it."""
    if isinstance(kind, str):
        return kind
    inner = {name: text_of(field) for name, field in kind.items() if name}
    match kind[""]:
        case "array":
            return f"array<{inner['element']}>"
        case "map":
            return f"map<{inner['key']},{inner['value']}>"
        case _:
            return f"struct<{','.join(f'{_quoted(name)}:{text}' for name, text in inner.items())}>"


def request(change: Change) -> SchemaChange:
    """The change as a request has it."""
    kind, names, value = change
    path = ".".join(map(_quoted, names))
    match kind:
        case "add":
            return AddColumn(path, text_of(value))
        case "rename":
            return RenameColumn(path, value)
        case "widen":
            return WidenColumn(path, value)
        case _:
            return DropColumn(path)


def _quoted(name: str) -> str:
    return f"`{name}`" if "." in name else name


class NestedFields:
    """The column ``c`` with its nested fields, and the greatest id so far."""

    def __init__(self, kind: Kind, field_id: int, last_id: int) -> None:
        self.last_id = last_id
        self.column = self._numbered(kind, field_id)

    def changed(self, change: Change) -> NestedFields | None:
        """The state after the change; None if it is refused."""
        after = deepcopy(self)
        return after if after._apply(*change) else None

    def ids(self) -> dict[tuple[str, ...], int]:
        """The id of each field, by the names that lead to it."""
        return dict(_ids(self.column, ("c",)))

    def text(self) -> str:
        """The type of the column."""
        return text_of(_kind_of(self.column))

    def _numbered(self, kind: Kind, field_id: int | None = None) -> list[Any]:
        if field_id is None:
            self.last_id += 1
            field_id = self.last_id
        if isinstance(kind, str):
            return [field_id, kind, {}]
        return [
            field_id,
            kind[""],
            {name: self._numbered(inner) for name, inner in kind.items() if name},
        ]

    def _apply(self, kind: str, names: Sequence[str], value: Any) -> bool:
        parent = self.column
        for name in names[1:-1]:
            if (parent[1], name) == ("map", "key") or name not in parent[2]:
                return False
            parent = parent[2][name]
        fields, name = parent[2], names[-1]
        if kind == "add":
            if parent[1] != "struct" or name.lower() in {other.lower() for other in fields}:
                return False
            fields[name] = self._numbered(value)
            return True
        if name not in fields or (parent[1], name) == ("map", "key"):
            return False
        if kind == "widen":
            return self._widen(fields[name], value)
        return parent[1] == "struct" and (
            self._rename(fields, name, value) if kind == "rename" else self._drop(fields, name)
        )

    @staticmethod
    def _widen(field: list[Any], kind: str) -> bool:
        if kind not in _WIDER.get(field[1], ()):
            return False
        field[1] = kind
        return True

    @staticmethod
    def _rename(fields: dict[str, Any], name: str, new_name: str) -> bool:
        others = {other.lower() for other in fields if other != name}
        if new_name == name or new_name.lower() in others:
            return False
        items = [(new_name if other == name else other, field) for other, field in fields.items()]
        fields.clear()
        fields.update(items)
        return True

    @staticmethod
    def _drop(fields: dict[str, Any], name: str) -> bool:
        if len(fields) == 1:
            return False
        del fields[name]
        return True


def _ids(field: list[Any], names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    yield names, field[0]
    for name, inner in field[2].items():
        yield from _ids(inner, (*names, name))


def _kind_of(field: list[Any]) -> Kind:
    if not field[2]:
        kind: str = field[1]
        return kind
    return {"": field[1], **{name: _kind_of(inner) for name, inner in field[2].items()}}
