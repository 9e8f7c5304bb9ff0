"""Upserts that lack columns: the records are completed with the stored values before they are written.

So readers merge whole records by the rules that they know (docs/decisions/0047-log-files.md).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import columns, errors


def completed(incoming: pa.Table, stored: pa.Table, kept: Sequence[str], required: Collection[str]) -> pa.Table:
    """``incoming`` (one record per key) with the columns ``kept`` of the stored records, null for new keys.

    Raises ``RequiredValueMissing`` for new keys if one of these columns is not nullable.
    """
    keys = incoming[columns.RECORD_KEY].cast(pa.large_string())
    known = stored[columns.RECORD_KEY].cast(pa.large_string()).combine_chunks()
    places = pc.index_in(keys, value_set=known)
    values = stored.select(list(kept)).take(places)
    _refuse_new(incoming, places, [name for name in kept if name in required])
    for name in kept:
        field = incoming.schema.field(name)
        column = values[name].cast(field.type)
        incoming = incoming.set_column(incoming.schema.get_field_index(name), field, column)
    return incoming


def _refuse_new(incoming: pa.Table, places: pa.ChunkedArray, names: Sequence[str]) -> None:
    if not names:
        return
    is_new = pc.and_(pc.is_null(places), pc.invert(incoming[columns.DELETE]))
    new = incoming[columns.RECORD_KEY].filter(is_new)
    if len(new):
        raise errors.RequiredValueMissing(
            f"the rows lack the columns {', '.join(names)}, which are not nullable, and {len(new)} of their "
            f"keys are new, for example {new[0].as_py()!r}: upsert or insert whole rows for new keys",
            {"columns": list(names), "record_key": new[0].as_py()},
        )
