"""Refuses strings that are not UTF-8, before they are written.

Spark stores any bytes in a string. hudi-rs, Arrow and lookups then fail at the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from chronolake import _utf8
from chronolake.slices import errors
from chronolake_model.tables import Table

_ADVICE = (
    "decode the bytes by their encoding, as in decode(cast(c as binary), 'ISO-8859-1'), replace them, as in "
    "make_valid_utf8(c), or use a column of the type binary"
)


def checked(batches: Iterable[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """The same rows. Raises ``InvalidText`` as ``check`` does."""
    for batch in batches:
        check(batch, table)
        yield batch


def check(rows: pa.RecordBatch | pa.Table, table: Table) -> None:
    """Raise ``InvalidText``, with the record key of the row, for a string of the table that is not UTF-8."""
    names = set(rows.schema.names)
    for field in table.schema:
        if field.name not in names:
            continue
        if (invalid := _utf8.first_invalid(field.name, rows[field.name])) is not None:
            key_fields = [name for name in table.record_key_fields if name in names]
            key = ", ".join(f"{name}={_utf8.value_at(rows[name], invalid.row)}" for name in key_fields)
            raise errors.InvalidText(
                f"column {invalid.path}, in the row with {key}: {what(invalid)}",
                {"column": invalid.path, "record_key": key},
            )


def what(invalid: _utf8.NotUtf8) -> str:
    """The message of the error, without the place."""
    return f"{invalid.excerpt} is not UTF-8; {_ADVICE}"


def of_column(name: str, hexadecimal: str) -> errors.InvalidText:
    """The error for a value of a column of the record key or of the partition."""
    return errors.InvalidText(
        f"column {name}: the bytes {hexadecimal} (hexadecimal) are not UTF-8; {_ADVICE}", {"column": name}
    )
