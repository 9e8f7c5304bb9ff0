"""Strings in Arrow columns that are not UTF-8. Arrow and Hudi's readers fail at them, Spark does not.

Needs pyarrow. Columns are validated by Arrow as a whole; only a column that is not valid is searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

_BYTES_MAX = 40


@dataclass(frozen=True, slots=True)
class NotUtf8:
    """The first string of a column that is not UTF-8.

    ``row`` is its place in the column, ``path`` the column or the field in it, ``text`` its bytes.
    """

    row: int
    path: str
    text: bytes

    @property
    def excerpt(self) -> str:
        """The beginning of its bytes, for messages."""
        return repr(self.text[:_BYTES_MAX])


def first_invalid(name: str, column: pa.Array | pa.ChunkedArray) -> NotUtf8 | None:
    """The first string that is not UTF-8 in the column ``name``, also within structs, arrays and maps."""
    if not has_texts(column.type):
        return None
    row = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        # A slice of a nested array is judged by the items of all rows, a copy by its own.
        if not _is_valid(chunk) and not _is_valid(_rows(chunk, 0, len(chunk))):
            place = _first_row(chunk)
            path, text = _found(name, _rows(chunk, place, 1))
            return NotUtf8(row + place, path, text)
        row += len(chunk)
    return None


def first_escaped(row: int, record: Mapping[str, object]) -> NotUtf8 | None:
    """The first string of a record of Avro that is not UTF-8. Surrogates stand for its bytes in the record."""
    for name, value in record.items():
        for path, text in _escaped(name, value):
            return NotUtf8(row, path, text)
    return None


def has_texts(type_: pa.DataType) -> bool:
    """Whether values of this type have strings, at any depth."""
    if pa.types.is_dictionary(type_):
        return has_texts(type_.value_type)
    if is_text(type_):
        return True
    return any(has_texts(type_.field(number).type) for number in range(type_.num_fields))


def is_text(type_: pa.DataType) -> bool:
    """Whether values of this type are strings."""
    types = pa.types
    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_))


def value_at(column: pa.Array | pa.ChunkedArray, row: int) -> str:
    """A value of a column, for messages. In a string, bytes that are not UTF-8 are escaped."""
    value = column.slice(row, 1)
    if not is_text(value.type):
        return str(value[0].as_py()) if _is_valid(_rows(value, 0, 1)) else "(not UTF-8)"
    text = value.cast(pa.binary())[0].as_py()
    return str(text) if text is None else text.decode(errors="backslashreplace")


def invalid_rows(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """For each row, whether it has a string that is not UTF-8."""
    rows = _rows(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, 0, len(column))
    if is_text(rows.type):
        texts = rows.cast(pa.binary()).to_pylist()
        return pa.array([text is not None and not _is_utf8(text) for text in texts], pa.bool_())
    return pa.array([not _is_valid(_rows(rows, row, 1)) for row in range(len(rows))], pa.bool_())


def _escaped(path: str, value: object) -> Iterator[tuple[str, bytes]]:
    match value:
        case str():
            text = value.encode(errors="surrogateescape")
            if not _is_utf8(text):
                yield path, text
        case tuple():
            # A record of a union, after its name.
            yield from _escaped(path, value[1])
        case list():
            for item in value:
                yield from _escaped(f"{path}.element", item)
        case dict():
            for name, part in value.items():
                yield from _escaped(f"{path}.key", name)
                yield from _escaped(f"{path}.{name}", part)
        case _:
            pass


def _is_valid(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _rows(values: pa.Array, start: int, count: int) -> pa.Array:
    """A copy of some rows."""
    rows = values.take(pa.array(range(start, start + count), pa.int64()))
    return rows.dictionary_decode() if pa.types.is_dictionary(rows.type) else rows


def _first_row(values: pa.Array) -> int:
    start, end = 0, len(values)
    while end - start > 1:
        middle = (start + end) // 2
        is_before = not _is_valid(_rows(values, start, middle - start))
        start, end = (start, middle) if is_before else (middle, end)
    return start


def _found(path: str, row: pa.Array) -> tuple[str, bytes]:
    """The path and the bytes of the first string of one row that is not UTF-8."""
    if is_text(row.type):
        texts = [text for text in row.cast(pa.binary()).to_pylist() if text is not None]
        return path, next(text for text in texts if not _is_utf8(text))
    for name, part in _parts(row):
        if not _is_valid(part):
            return _found(f"{path}.{name}", part)
    raise AssertionError(f"{path} is not valid, but all of its strings are")


def _parts(row: pa.Array) -> list[tuple[str, pa.Array]]:
    if pa.types.is_map(row.type):
        return [("key", row.keys), ("value", row.items)]
    if pa.types.is_struct(row.type):
        return list(zip([field.name for field in row.type], row.flatten(), strict=True))
    return [("element", row.flatten())]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
