"""A regular expression for the lines of JSON files whose records have a known shape.

Most lines of a file have the same fields in the same order, with values of the same kinds. Arrow matches such
lines twenty times as fast as Python decodes them. The pattern matches only lines that are strict JSON, have no
field twice, and would leave the shape as it is. It does not match all of these lines: the others are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final, assert_never

from chronolake.ingest import operations
from chronolake.ingest.json_records import JsonType
from chronolake.ingest.json_shape import INT64_DIGITS, OPTIONAL_FIELDS_MAX, Shape
from chronolake_model.schemas import DECIMAL_PRECISION_MAX

_CHARS_MAX: Final = 200_000
"""A longer pattern would be compiled slowly, or not at all."""
_DEPTH_MAX: Final = 8
"""An array doubles the pattern of its elements."""
_SPACE: Final = r"[ \t]*"
_HEX: Final = "[0-9a-fA-F]"
_STRING: Final = (
    r'"(?:[^"\\\x00-\x1f]'
    r'|\\["\\/bfnrt]'
    rf"|\\u(?:[0-9abcefABCEF]{_HEX}|[dD][0-7]){_HEX}{{2}}"
    rf'|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})*"'
)
"""Both halves of a surrogate pair make one character; one half is refused."""
_OPERATION: Final = f'(?:"{operations.PATTERN}"|null)'


def line_pattern(shape: Shape, op_column: str | None = None) -> str | None:
    """The pattern (RE2, of bytes) of lines whose records do not change ``shape``, the root.

    It matches a value of ``op_column`` only if it names an operation. None stands for a shape that no pattern
    of a sensible size describes.
    """
    if not shape.fields or not _is_small(shape):
        return None
    operation_names = {
        name
        for name, field in shape.fields.items()
        if op_column and name.lower() == op_column.lower() and field.kind is JsonType.STRING
    }
    record = _object(shape, operation_names)
    pattern = rf"\A{_SPACE}{record}{_SPACE}\r?\n?\z"
    return pattern if len(pattern) <= _CHARS_MAX else None


def _is_small(shape: Shape, depth: int = 0) -> bool:
    """Whether ``shape`` is neither deep nor has more optional fields than can be matched fast."""
    if depth > _DEPTH_MAX or len(shape.optional_fields) > OPTIONAL_FIELDS_MAX:
        return False
    return all(_is_small(child, depth + 1) for child in shape.children)


def _value(shape: Shape) -> str:
    match shape.kind:
        case JsonType.NULL:
            return "null"
        case JsonType.BOOLEAN:
            return "(?:true|false|null)"
        case JsonType.STRING:
            return f"(?:{_STRING}|null)"
        case JsonType.NUMBER:
            return f"(?:{'|'.join([*_numbers(shape), 'null'])})"
        case JsonType.ARRAY:
            items = "" if shape.items is None else _list(_value(shape.items))
            return rf"(?:\[{_SPACE}{items}\]|null)"
        case JsonType.OBJECT:
            return f"(?:{_object(shape)}|null)"
        case _ as unreachable:
            assert_never(unreachable)


def _list(item: str) -> str:
    return f"(?:{item}{_SPACE}(?:,{_SPACE}{item}{_SPACE})*)?"


def _object(shape: Shape, operation_names: Collection[str] = ()) -> str:
    """The pattern of objects that have all fields but optional ones, in the order of ``shape``.

    The first field that all objects have divides the others: earlier fields have a comma after them, later ones
    before them.
    """
    names = list(shape.fields)
    pivot = next((name for name in names if name not in shape.optional_fields), None)
    is_optional = pivot is None
    position = 0 if pivot is None else names.index(pivot)
    members = [
        rf"{_name(name)}{_SPACE}:{_SPACE}"
        + (_OPERATION if name in operation_names else _value(shape.fields[name]))
        + _SPACE
        for name in names
    ]
    before = "".join(f"(?:{member},{_SPACE})?" for member in members[:position])
    behind = "".join(
        f"(?:,{_SPACE}{member}){'?' if name in shape.optional_fields else ''}"
        for name, member in zip(names[position + 1 :], members[position + 1 :], strict=True)
    )
    fields = "".join([before, *members[position : position + 1], behind])
    return rf"\{{{_SPACE}(?:{fields}){'?' if is_optional else ''}\}}"


def _name(name: str) -> str:
    """The name as JSON text in UTF-8, or if it has other characters than ASCII also escaped."""
    texts = dict.fromkeys(json.dumps(name, ensure_ascii=is_ascii) for is_ascii in (False, True))
    return f"(?:{'|'.join(''.join(map(_byte, text.encode())) for text in texts)})"


def _byte(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and char.isalnum() else rf"\x{byte:02x}"


def _numbers(shape: Shape) -> Iterator[str]:
    """Patterns of numbers that have no more digits than those of the shape, before and after the point.

    A number without a point is an integer of 64 bits, unless decimals make the difference irrelevant. Only zero
    may have a sign that the shape has to know.
    """
    digits = min(shape.whole_digits, DECIMAL_PRECISION_MAX)
    if shape.has_int64:
        yield "-?0" if shape.has_negative_zero else "0"
        yield f"-?[1-9][0-9]{{0,{min(digits, digits if shape.has_decimals else INT64_DIGITS) - 1}}}"
        if digits > INT64_DIGITS:
            yield f"-?[1-8][0-9]{{{INT64_DIGITS}}}"
    if shape.scale:
        scale = min(shape.scale, DECIMAL_PRECISION_MAX)
        if digits > 0:
            yield rf"-?[1-9][0-9]{{0,{digits - 1}}}\.[0-9]{{1,{scale}}}"
        yield rf"0\.[0-9]{{1,{scale}}}"
        yield rf"-0\.[0-9]{{0,{scale - 1}}}{'[0-9]' if shape.has_negative_zero else '[1-9]'}"
