"""The grammar of column types: Spark's names, nested up to a bound."""

from __future__ import annotations

import re
from typing import assert_never

import msgspec

from chronolake_model.schemas import DECIMAL_PRECISION_MAX, WIDER_TYPES

PRIMITIVES = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)
DEPTH_MAX = 32
_ALL = f"{', '.join(sorted(PRIMITIVES))}, decimal(p,s), array<T>, map<K,V> and struct<name:T,...>"

_DECIMAL = re.compile(r"\s*decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)\s*", re.ASCII | re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z0-9_]+|[<>(),:])")


class PrimitiveType(msgspec.Struct, frozen=True):
    """A type without parts; ``name`` is one of ``PRIMITIVES``."""

    name: str


class DecimalType(msgspec.Struct, frozen=True):
    """Decimal numbers of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int


class ArrayType(msgspec.Struct, frozen=True):
    """Lists of elements of one type."""

    element: DataType


class MapType(msgspec.Struct, frozen=True):
    """Maps from keys of one type to values of one type."""

    key: DataType
    value: DataType


class StructField(msgspec.Struct, frozen=True):
    """A field of a struct."""

    name: str
    type: DataType


class StructType(msgspec.Struct, frozen=True):
    """Structs: values with named fields."""

    fields: tuple[StructField, ...]


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType
"""A column type as a tree."""


def parse(text: str) -> DataType:
    """The type that ``text`` spells; raises ``ValueError``, saying why, if it spells none."""
    return _Parser(text).whole()


def check(text: str) -> None:
    """Raise ``ValueError``, saying why, unless ``text`` is a column type."""
    parse(text)


def spell(data_type: DataType) -> str:
    """The text of a type, which ``parse`` reads back."""
    match data_type:
        case PrimitiveType(name):
            return name
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType(element):
            return f"array<{spell(element)}>"
        case MapType(key, value):
            return f"map<{spell(key)},{spell(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{_spell_name(field.name)}:{spell(field.type)}' for field in fields)}>"
        case _:
            assert_never(data_type)


def _spell_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def widenings(text: str) -> list[str]:
    """The types that a column of type ``text`` may be widened to, in words."""
    if decimal := _DECIMAL.fullmatch(text):
        precision, scale = int(decimal[1]), int(decimal[2])
        return [f"decimal(p,{scale}) with p > {precision}"] if precision < DECIMAL_PRECISION_MAX else []
    return list(WIDER_TYPES.get(text.strip().lower(), ()))


def is_wider(text: str, than: str) -> bool:
    """Whether the type ``text`` holds every value of the type ``than``, and more. Both must be types."""
    old, new = _DECIMAL.fullmatch(than), _DECIMAL.fullmatch(text)
    if old and new:
        return int(new[1]) > int(old[1]) and int(new[2]) == int(old[2])
    return text.strip().lower() in WIDER_TYPES.get(than.strip().lower(), ())


class _Parser:
    """Reads one type from left to right. Raises ``ValueError`` at the first error."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0

    def whole(self) -> DataType:
        data_type = self._type(0)
        if self._next != len(self._tokens):
            raise ValueError(f"{self._tokens[self._next]!r} follows a complete type")
        return data_type

    def _take(self, *expected: str) -> str:
        if self._next == len(self._tokens):
            raise ValueError("the type ends too early")
        token = self._tokens[self._next]
        if expected and token not in expected:
            raise ValueError(f"{token!r} stands where {' or '.join(expected)} is due")
        self._next += 1
        return token

    def _type(self, depth: int) -> DataType:
        if depth > DEPTH_MAX:
            raise ValueError(f"the type nests deeper than {DEPTH_MAX}")
        word = self._take()
        match word.lower():
            case "array":
                self._take("<")
                element = self._type(depth + 1)
                self._take(">")
                return ArrayType(element)
            case "map":
                return self._map(depth)
            case "struct":
                return self._struct(depth)
            case "decimal":
                return self._decimal()
            case primitive if primitive in PRIMITIVES:
                return PrimitiveType(primitive)
            case _:
                raise ValueError(f"{word!r} is not a type; the types are {_ALL}")

    def _map(self, depth: int) -> MapType:
        self._take("<")
        key = self._type(depth + 1)
        self._take(",")
        value = self._type(depth + 1)
        self._take(">")
        return MapType(key, value)

    def _struct(self, depth: int) -> StructType:
        self._take("<")
        fields = []
        while True:
            name = self._name()
            self._take(":")
            fields.append(StructField(name, self._type(depth + 1)))
            if self._take(",", ">") == ">":
                return StructType(tuple(fields))

    def _name(self) -> str:
        name = self._take()
        if name in set("<>(),:"):
            raise ValueError(f"{name!r} stands where the name of a field is due")
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def _decimal(self) -> DecimalType:
        self._take("(")
        precision = self._number()
        self._take(",")
        scale = self._number()
        self._take(")")
        if not 1 <= precision <= DECIMAL_PRECISION_MAX or scale > precision:
            raise ValueError(f"decimal({precision},{scale}) needs 1 <= precision <= 38 and scale <= precision")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._take()
        if not token.isdecimal() or len(token) > 3:
            raise ValueError(f"{token!r} stands where a number is due")
        return int(token)


def _tokens(text: str) -> list[str]:
    tokens = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ValueError(f"{stripped[at : at + 10]!r} cannot be part of a type")
        tokens.append(match[1])
        at = match.end()
    return tokens
