"""The messages about rows whose record key or partition value cannot be written."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_model.partition_paths import NULL_KEY
from chronolake_model.tables import Field


def missing_key(names: Sequence[str]) -> str:
    """The message of ``InvalidRecordKey`` for rows in which all columns of the record key are missing."""
    which = "value is null or empty" if len(names) == 1 else "values are all null or empty"
    key = ", ".join(names)
    return f"the record key ({key}): there are rows where its {which}; fill them in or filter them out"


def ambiguous_key(names: Sequence[str]) -> str:
    """The message of ``InvalidRecordKey`` for rows whose key has the same text as another key."""
    return (
        f"the record key ({', '.join(names)}): there are rows with a value like {NULL_KEY!r}, or like "
        f"',{names[-1]}:', which gives different records the same key text; change those values"
    )


def mixes_empty(field: Field) -> bool:
    """Whether records with an empty string in this partition field would be among those with null."""
    return field.nullable and is_text(field)


def is_text(field: Field) -> bool:
    """Whether the values of this field are texts, one of which may be the name of null's partition."""
    return field.type.strip().lower() == "string"


def empty_partition(names: Sequence[str], example: str) -> str:
    """The message of ``InvalidPartitionValue`` for an empty string in a nullable partition field.

    ``example`` is the first of the names, as SQL has it.
    """
    return (
        f"the partition fields ({', '.join(names)}): there are rows with an empty string, whose partition is "
        f"that of null, so their records would be mixed; write null instead, as by nullif({example}, ''), or "
        "make the table with the column as not nullable"
    )
