"""Partition paths as Hudi's Spark reader reads them: it takes the values of partition columns from the path.

These values must be equal to those in the files. Paths that are spelled as in docs/writing.md are read
correctly; a writer may have spelled others (docs/decisions/0043-partition-paths.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chronolake_hudi.publishable import Publishable
from chronolake_metastore.domain import literals, partition_values
from chronolake_metastore.domain.literals import LiteralKind
from chronolake_metastore.domain.partition_values import NULL_PARTITION
from chronolake_model.columns import Field
from chronolake_model.partition_paths import Spelling
from chronolake_model.vocabulary import ADOPTED_PROPERTY

# The values in the range of 64 bits; Python's dates end at the year 9999.
_INSTANT: Final = re.compile(r"[+-]?\d{4,6}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{1,6})?Z", re.ASCII)
_DATE: Final = re.compile(r"[+-]?\d{4,7}-\d\d-\d\d", re.ASCII)


def obstacle(table: Publishable, partition_path: str) -> str | None:
    """Why Hudi's readers fail, or take other values from the path than the files hold; None if they do not.

    The paths of an adopted table are Hudi's own, except where Hudi itself would fail.
    """
    if not table.partition_fields:
        return None
    is_adopted = ADOPTED_PROPERTY in table.properties
    spelling = Spelling.of(table.properties)
    if ":" in (partition_path.partition("/")[0] if is_adopted else partition_path):
        # Of all characters only this one: Hadoop's Path quotes the others that a URI does not allow.
        return (
            f"Hudi's Java readers fail for the whole table at the colon in the partition path "
            f"{partition_path[:200]!r}, because Hadoop takes what is before it for a scheme: spell it as %3A, "
            "or write another value; rewrite the files of the partition, or set hudi.publish to false"
        )
    if spelling.hive_style and any(folder.find("=") == len(folder) - 1 for folder in partition_path.split("/")):
        return (
            f"Hudi's Spark reader fails for the whole table at the empty value in the partition path "
            f"{partition_path[:200]!r}: spell it as {NULL_PARTITION}; rewrite the files of the partition, or "
            "set hudi.publish to false"
        )
    if is_adopted:
        return None
    by_name = {field.name: field for field in table.schema}
    fields = [by_name[name] for name in table.partition_fields]
    return _obstacle(fields, partition_path, spelling)


def _obstacle(fields: Sequence[Field], partition_path: str, spelling: Spelling) -> str | None:
    for field, folder in zip(fields, partition_path.split("/"), strict=True):
        if not _is_readable(field, folder, spelling):
            return (
                f"Hudi's readers would not find the value of {field.name!r} in the partition path "
                f"{partition_path[:200]!r}: spell it as docs/writing.md says; rewrite the files of the "
                "partition, or set hudi.publish to false"
            )
    return None


def _is_readable(field: Field, folder: str, spelling: Spelling) -> bool:
    kind = literals.kind_of(field.type)
    text = partition_values.text_of(folder, field.name, spelling) or ""
    if text == NULL_PARTITION:
        # Hudi reads a null. In a column that has none, it is the empty string, or this text.
        return field.nullable
    if "%7D" in text:
        # Hudi looks for the partition of a filter under a path with the character itself.
        return False
    if kind is LiteralKind.TIMESTAMP:
        return _INSTANT.fullmatch(text) is not None
    if kind is LiteralKind.DATE and _DATE.fullmatch(text):
        return True
    return partition_values.candidates(folder, field.name, kind, spelling) is not None
