"""Partition paths that cannot be the table's: a writer of another spelling would store a record twice."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from chronolake_metastore.domain.tables import Table
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY, Spelling, are_kept
from chronolake_model.record_keys import escape


def check(table: Table, partition_path: str) -> None:
    """Raise ``ValueError`` unless the path has a part for each partition field, in the style of the table.

    In hive style each part begins with its field's ``name=``; otherwise none does. Whether a value is escaped
    cannot be seen. Paths that are kept have any form.
    """
    definition = table.definition
    if are_kept(definition.properties):
        return
    hive_style = Spelling.of(definition.properties).hive_style
    _check(tuple(definition.partition_fields), partition_path, hive_style=hive_style)


@functools.lru_cache(maxsize=1_024)
def _check(fields: Sequence[str], partition_path: str, *, hive_style: bool) -> None:
    parts = partition_path.split("/") if partition_path else []
    if len(parts) != len(fields):
        raise ValueError("the partition path must have one part for each partition field")
    for field, part in zip(fields, parts, strict=True):
        if part.startswith((f"{field}=", f"{escape(field)}=")) is hive_style:
            continue
        if hive_style:
            raise ValueError(
                f"the part {part[:100]!r} of the partition path must begin with '{field}=': the table has the "
                "names of its partition fields in its paths"
            )
        raise ValueError(
            f"the part {part[:100]!r} of the partition path begins with '{field}=', but the table has values "
            f"without names in its paths ({HIVE_STYLE_PROPERTY} is false), and the record would be stored a "
            "second time; use a writer that follows this property"
        )
