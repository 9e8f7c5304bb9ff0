"""Changes of nested fields: of a struct's fields, and of what arrays and maps hold (decision 0013)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from chronolake_model import column_types, nested_fields
from chronolake_model.column_types import ArrayType, DataType, MapType, StructField, StructType
from chronolake_model.columns import NestedField, SchemaField

_FIELDS_NAMED_MAX: Final = 50


class RefusedChangeError(Exception):
    """Why a change is refused, and the context of the problem."""

    def __init__(self, why: str, **context: Any) -> None:
        super().__init__(why)
        self.context = context


class _Node(msgspec.Struct, frozen=True):
    """A column or a nested field with the fields within it.

    Of a nested ``type`` only its kind counts: ``parts`` has what is within it.
    """

    name: str
    field_id: int
    type: DataType
    parts: tuple[_Node, ...] = ()


_Parts = tuple[_Node, ...]
_Change = Callable[[_Node, _Node], _Parts]
"""Gives the new parts of the parent, from the parent and the part that the change names."""


def add(
    column: SchemaField, names: Sequence[str], data_type: DataType, last_field_id: int
) -> tuple[SchemaField, int]:
    """The column with a new field, and the greatest field id then.

    ``names`` lead from the column to the field; all but the last lead to a struct. Raises
    ``RefusedChangeError``, as the other changes do.
    """
    field_id = last_field_id + 1
    within, last = nested_fields.numbered(data_type, field_id)
    added = _node(names[-1], field_id, data_type, within)

    def append(parent: _Node) -> _Node:
        if not isinstance(parent.type, StructType):
            raise RefusedChangeError("fields are added to structs only")
        _refuse_taken(parent.parts, names[-1])
        return msgspec.structs.replace(parent, parts=(*parent.parts, added))

    return _edited(column, names[:-1], append), last


def rename(column: SchemaField, names: Sequence[str], new_name: str) -> SchemaField:
    """The column with another name for the nested field."""

    def change(parent: _Node, field: _Node) -> _Parts:
        _refuse_unnamed(parent, field, "renamed")
        if new_name == field.name:
            raise RefusedChangeError("it already has this name")
        _refuse_taken([other for other in parent.parts if other is not field], new_name)
        return _with(parent, field, msgspec.structs.replace(field, name=new_name))

    return _changed(column, names, change)


def widen(column: SchemaField, names: Sequence[str], type_text: str) -> SchemaField:
    """The column with a wider type for the nested field."""

    def change(parent: _Node, field: _Node) -> _Parts:
        refuse_no_wider(type_text, column_types.spell(_data_type(field)))
        return _with(parent, field, msgspec.structs.replace(field, type=column_types.parse(type_text)))

    return _changed(column, names, change)


def drop(column: SchemaField, names: Sequence[str]) -> SchemaField:
    """The column without the nested field."""

    def change(parent: _Node, field: _Node) -> _Parts:
        _refuse_unnamed(parent, field, "dropped")
        if len(parent.parts) == 1:
            raise RefusedChangeError("it is the only field of its struct; drop the struct")
        return tuple(other for other in parent.parts if other is not field)

    return _changed(column, names, change)


def set_nullable(column: SchemaField, names: Sequence[str]) -> SchemaField:
    """Refuse it: nested fields are nullable."""

    def change(_parent: _Node, _field: _Node) -> _Parts:
        raise RefusedChangeError("it is nullable already")

    return _changed(column, names, change)


def refuse_no_wider(type_text: str, present: str) -> None:
    """Raise ``RefusedChangeError`` unless a column of the type ``present`` may be widened to ``type_text``."""
    if column_types.is_wider(type_text, present):
        return
    allowed = column_types.widenings(present)
    advice = f"it may become {' or '.join(allowed)}" if allowed else "no type is wider"
    if within := nested_fields.parts(column_types.parse(present)):
        advice += f"; change the fields within it, such as .{nested_fields.join([within[0].name])}"
    raise RefusedChangeError(
        f"files that store it as {present[:100]} cannot be read as {type_text[:100]}; {advice}",
        type=present,
        allowed=allowed,
    )


def _changed(column: SchemaField, names: Sequence[str], change: _Change) -> SchemaField:
    """The column after the change of the nested field at ``names``."""

    def of_parent(parent: _Node) -> _Node:
        return msgspec.structs.replace(parent, parts=change(parent, _part(parent, names[-1])))

    return _edited(column, names[:-1], of_parent)


def _edited(column: SchemaField, names: Sequence[str], change: Callable[[_Node], _Node]) -> SchemaField:
    """The column with what ``change`` makes of the field at ``names``."""
    tree = _node(column.name, column.field_id, column_types.parse(column.type), column.nested)
    edited = _replaced(tree, names, change)
    if edited == tree:
        return column
    return msgspec.structs.replace(
        column, type=column_types.spell(_data_type(edited)), nested=[_nested(part) for part in edited.parts]
    )


def _replaced(node: _Node, names: Sequence[str], change: Callable[[_Node], _Node]) -> _Node:
    if not names:
        return change(node)
    part = _part(node, names[0])
    return msgspec.structs.replace(node, parts=_with(node, part, _replaced(part, names[1:], change)))


def _part(node: _Node, name: str) -> _Node:
    if isinstance(node.type, MapType) and name == nested_fields.KEY:
        raise RefusedChangeError("the key of a map keeps its type, because its values are found by it")
    for part in node.parts:
        if part.name == name:
            return part
    names = [part.name for part in node.parts]
    if not names:
        raise RefusedChangeError(f"{node.name!r} is of type {column_types.spell(node.type)}, without fields")
    raise RefusedChangeError(
        f"there is no such field; the fields of {node.name!r} are {', '.join(names[:_FIELDS_NAMED_MAX])}",
        fields=names[:_FIELDS_NAMED_MAX],
    )


def _with(parent: _Node, part: _Node, other: _Node) -> _Parts:
    return tuple(other if sibling is part else sibling for sibling in parent.parts)


def _refuse_unnamed(parent: _Node, field: _Node, done: str) -> None:
    if not isinstance(parent.type, StructType):
        raise RefusedChangeError(f"the {field.name} of an array or a map cannot be {done}")


def _refuse_taken(parts: Sequence[_Node], name: str) -> None:
    for part in parts:
        if part.name.lower() == name.lower():
            raise RefusedChangeError(f"there is the field {part.name!r} already (case does not count)")


def _node(name: str, field_id: int, data_type: DataType, nested: Sequence[NestedField]) -> _Node:
    parts = tuple(
        _node(part.name, field.field_id, part.type, field.nested)
        for part, field in zip(nested_fields.parts(data_type), nested, strict=True)
    )
    return _Node(name, field_id, data_type, parts)


def _nested(node: _Node) -> NestedField:
    return NestedField(node.name, node.field_id, [_nested(part) for part in node.parts])


def _data_type(node: _Node) -> DataType:
    types = [_data_type(part) for part in node.parts]
    match node.type:
        case ArrayType():
            return ArrayType(*types)
        case MapType():
            return MapType(*types)
        case StructType():
            fields = zip(node.parts, types, strict=True)
            return StructType(tuple(StructField(part.name, type_) for part, type_ in fields))
        case _:
            return node.type
