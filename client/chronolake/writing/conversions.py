"""Lossless conversions of columns in Arrow to the types of a table: a value that would change is refused.

The rules are those of writes by Spark (``chronolake_spark.write.casts``). Arrow writes floats, decimals and
times as text in another way than Spark does, so these are not converted to strings.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import arrow_types, errors
from chronolake.writing import csv_types
from chronolake_model import column_types
from chronolake_model.tables import SchemaField

_VALUE_CHARS_MAX: Final = 200
_ZONE_ADVICE: Final = "give it a time zone, as with pyarrow.compute.assume_timezone, or take it away"

_NO_ZONE: Final = "give the time with its zone, as 2026-01-31 12:00:00Z"
_CORRECT: Final = "correct it, or cast the column explicitly"


def converted(
    values: pa.ChunkedArray, field: SchemaField, *, is_utc_without_zone: bool = False
) -> pa.ChunkedArray:
    """The values in the type of a column of the table. Raises ``SchemaMismatch``.

    A string without a zone is no ``timestamp``, unless it ``is_utc_without_zone``, as in files.
    """
    target = arrow_types.of(column_types.parse(field.type))
    values = _plain(values)
    given = values.type
    if given == target or pa.types.is_null(given):
        return values.cast(target)
    if _is_string(given) and csv_types.arrow_type(field.type) is not None and not _is_string(target):
        return _from_strings(values, field, is_utc_without_zone=is_utc_without_zone)
    if pa.types.is_nested(given) or pa.types.is_nested(target):
        return _nested(values, field, target)
    if (advice := _advice(given, target)) is not None:
        raise errors.SchemaMismatch(
            f"the rows do not fit the table: their column {field.name} is {given}, which is not converted to "
            f"the table's {field.type}; {advice}",
            {"column": field.name, "given": str(given), "wanted": field.type},
        )
    result = _cast(values, target)
    if result is None:
        raise _mismatch(field, given)
    return result


def other_kind(given: str, wanted: str) -> str | None:
    """The advice for a column of one type of a table, of which another type takes no value; None if it may.

    That holds for the values within it too.
    """
    if given == wanted:
        return None
    return _other_kind(*(arrow_types.of(column_types.parse(type_)) for type_ in (given, wanted)))


def _other_kind(given: pa.DataType, wanted: pa.DataType) -> str | None:
    if (inner := _inner_types(given, wanted)) is not None:
        return next((advice for types in inner if (advice := _other_kind(*types)) is not None), None)
    if given == wanted or any(map(pa.types.is_nested, (given, wanted))) or _is_string(given):
        return None
    return _advice(given, wanted)


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | None:
    """The values in another type; None if one would change."""
    try:
        result = _decimals(values, target).cast(target)
        return None if not _is_string(target) and _changes(values, _back(result, values.type)) else result
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _back(result: pa.ChunkedArray, given: pa.DataType) -> pa.ChunkedArray:
    """The result in the type of its values. Decimals and floats go by text: Arrow's cast misses the nearest."""
    types = (result.type, given)
    if any(map(pa.types.is_decimal, types)) and any(map(pa.types.is_floating, types)):
        result = result.cast(pa.string())
    return _decimals(result, given).cast(given)


def _decimals(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Integers that are to be decimals, as those of the largest precision: Arrow wants room for any integer."""
    if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
        return values.cast(pa.decimal128(38, target.scale))
    return values


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values without a dictionary, and texts and bytes with the offsets that tables have."""
    if pa.types.is_dictionary(values.type):
        decoded = [_texts(chunk.dictionary).take(chunk.indices) for chunk in values.chunks]
        return pa.chunked_array(decoded, None if decoded else values.type.value_type)
    if pa.types.is_large_binary(values.type) or pa.types.is_binary_view(values.type):
        return values.cast(pa.binary())
    return values


def _texts(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _is_string(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(data_type) for test in tests)


def _is_number(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(data_type) for test in tests)


def _has_zone(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(data_type) and data_type.tz is not None)


def _advice(given: pa.DataType, target: pa.DataType) -> str | None:
    """The advice for a value whose type is of another kind than the table's; None if it can be converted."""
    is_time, was_time = (pa.types.is_date(type_) or pa.types.is_timestamp(type_) for type_ in (target, given))
    if _is_string(given) and (_is_string(target) or pa.types.is_binary(target)):
        return None
    if _is_string(target):
        is_plain = pa.types.is_integer(given) or pa.types.is_boolean(given) or pa.types.is_date(given)
        return None if is_plain else "convert it to strings yourself"
    if _is_number(given) and _is_number(target):
        return None
    return _advice_of_kinds(given, target, are_times=is_time and was_time, is_time=is_time)


def _advice_of_kinds(given: pa.DataType, target: pa.DataType, *, are_times: bool, is_time: bool) -> str | None:
    if are_times:
        return None if _has_zone(given) == _has_zone(target) else _ZONE_ADVICE
    if is_time and _is_number(given):
        return "convert it yourself, with its unit"
    if _is_number(given) and pa.types.is_boolean(target):
        return "compare it with a value, as in n = 1"
    return "cast it yourself"


def _changes(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Whether a value has changed. NaN is the same as NaN."""
    is_same = pc.fill_null(pc.equal(before, after), False)
    are_null = pc.and_(pc.is_null(before, nan_is_null=True), pc.is_null(after, nan_is_null=True))
    return not pc.all(pc.or_(is_same, are_null), min_count=0).as_py()


def _from_strings(values: pa.ChunkedArray, field: SchemaField, *, is_utc_without_zone: bool) -> pa.ChunkedArray:
    strings = values.cast(pa.string()).combine_chunks()
    needs_zone = field.type == "timestamp" and not is_utc_without_zone
    try:
        return pa.chunked_array([csv_types.convert(strings, field.type, stated=not needs_zone)])
    except csv_types.ValueMismatch as mismatch:
        string = strings[mismatch.index].as_py()
        raise unfit_string(field.name, string, field.type, _NO_ZONE if needs_zone else _CORRECT) from mismatch


def unfit_string(name: str, value: str, type_: str, advice: str = _CORRECT) -> errors.SchemaMismatch:
    """The error of a string that is no value of a column's type."""
    string = value[:_VALUE_CHARS_MAX]
    return errors.SchemaMismatch(
        f"column {name}: the string {string!r} does not fit {type_}; {advice}",
        {"column": name, "value": string, "wanted": type_},
    )


def _nested(values: pa.ChunkedArray, field: SchemaField, target: pa.DataType) -> pa.ChunkedArray:
    try:
        parts = [_within(chunk, target).cast(target) for chunk in values.chunks]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise _mismatch(field, values.type) from exc
    return pa.chunked_array(parts, target)


def _within(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Nested values with structs in the table's order. Raises ``pa.ArrowInvalid`` for values that change."""
    given = values.type
    if _is_list(given) and pa.types.is_list(target):
        items = _within(values.values, target.value_type)
        as_list = pa.large_list if pa.types.is_large_list(given) else pa.list_
        return _with_items(values, as_list(items.type), items)
    if pa.types.is_map(given) and pa.types.is_map(target):
        keys, items = _within(values.keys, target.key_type), _within(values.items, target.item_type)
        type_ = pa.map_(keys.type, items.type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[type_.key_field, type_.item_field])
        return _with_items(values, type_, entries)
    if pa.types.is_struct(given) and pa.types.is_struct(target):
        return _struct(values, target)
    plain = _plain(pa.chunked_array([values]))
    if pa.types.is_null(plain.type) or plain.type == target:
        return plain.cast(target).combine_chunks()
    if not _are_of_a_kind(plain.type, target) or (result := _cast(plain, target)) is None:
        raise pa.ArrowInvalid(f"{given} is not {target}")
    return result.combine_chunks()


def _struct(values: pa.Array, target: pa.StructType) -> pa.Array:
    by_name = {field.name.lower(): field.name for field in values.type}
    if len(by_name) < values.type.num_fields or set(by_name) != {field.name.lower() for field in target}:
        raise pa.ArrowInvalid("its fields are others")
    parts = [_within(pc.struct_field(values, by_name[field.name.lower()]), field.type) for field in target]
    fields = [pa.field(field.name, part.type) for field, part in zip(target, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())


def _are_of_a_kind(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether values within a nested one may be converted. Strings only stay strings there."""
    if pa.types.is_nested(given) or pa.types.is_nested(target):
        return False
    return _is_string(given) == _is_string(target) if _is_string(given) else _advice(given, target) is None


def _with_items(values: pa.Array, type_: pa.DataType, items: pa.Array) -> pa.Array:
    """Lists or maps with other items at the same places."""
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(type_, len(values), buffers, offset=values.offset, children=[items])


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast changes no value. Names of list elements do not count: Spark has others than Arrow."""
    if pa.types.is_null(given) or _text(given) == _text(wanted):
        return True
    if (inner := _inner_types(given, wanted)) is not None:
        return all(fits(left, right) for left, right in inner)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return bool((given.tz is None) == (wanted.tz is None) and given.unit == wanted.unit)
    if pa.types.is_signed_integer(given) and pa.types.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    return bool(pa.types.is_float32(given) and pa.types.is_float64(wanted))


def _inner_types(given: pa.DataType, wanted: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]] | None:
    """The pairs of types within two lists, two maps, or two structs of the same fields; None for others."""
    if _is_list(given) and pa.types.is_list(wanted):
        return [(given.value_type, wanted.value_type)]
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return [(given.key_type, wanted.key_type), (given.item_type, wanted.item_type)]
    if not (pa.types.is_struct(given) and pa.types.is_struct(wanted)):
        return None
    names = [[field.name for field in struct] for struct in (given, wanted)]
    if names[0] != names[1]:
        return None
    return [(left.type, right.type) for left, right in zip(given, wanted, strict=True)]


def _text(type_: pa.DataType) -> str:
    return str(type_).replace(" not null", "").replace("large_", "")


def _mismatch(field: SchemaField, given: pa.DataType) -> errors.SchemaMismatch:
    return errors.SchemaMismatch(
        f"the rows do not fit the table: their column {field.name} is {given}, and the table's is "
        f"{field.type}, which cannot hold every value of it; cast the column explicitly",
        {"column": field.name, "given": str(given), "wanted": field.type},
    )
