"""Tables that are written. Some that were adopted from Hudi are not: a record could be stored twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chronolake.slices import errors
from chronolake_model.instants import Instant
from chronolake_model.partition_paths import KEPT_KEYS_PROPERTY, KEPT_PROPERTY
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

_INDEXES: Final = (IndexType.BUCKET, IndexType.RECORD, IndexType.SIMPLE, IndexType.BLOOM)
_NOT_WRITTEN: Final[Mapping[str, str]] = {
    KEPT_KEYS_PROPERTY: "its record keys are made in another way than Chronolake's",
    KEPT_PROPERTY: "its partition paths are made in another way than Chronolake's",
}


def check(table: Table, *, only_inserts: bool = False) -> Table:
    """``table``, if writers can write tables of its kind. Raises ``TableMismatch``.

    With ``only_inserts`` no record is looked up by its key.
    """
    if not table.record_key_fields and KEPT_KEYS_PROPERTY not in table.properties and not only_inserts:
        raise errors.TableMismatch(
            f"{table.name} was adopted from Hudi without record key fields, so no record can be found again: "
            "add records with bulk_insert() without sort; replace them with Hudi after a release "
            f"(chronolake hudi release {table.name})"
        )
    for name, why in _NOT_WRITTEN.items():
        if name in table.properties:
            raise errors.TableMismatch(
                f"{table.name} was adopted from Hudi, and {why} ({name}), so Chronolake does not write to it: "
                f"use a writer of your own, or release it (chronolake hudi release {table.name}) and write it "
                "with Hudi"
            )
    if table.index.type in _INDEXES:
        return table
    raise errors.TableMismatch(
        f"{table.name} has the index {table.index.type}, which this release does not "
        "write: install one that does"
    )


def refuse_another_schema(prepared: Table, instant: Instant) -> None:
    """Raise ``SchemaMismatch`` when the schema changed while the rows were prepared for the one before.

    What is completed later with a later schema, in the same file groups, the server takes for a conflict.
    """
    if instant.schema_version != prepared.schema_version:
        raise errors.SchemaMismatch(
            f"the schema of {prepared.name} was changed meanwhile, from version {prepared.schema_version} "
            f"to version {instant.schema_version}; write the rows again",
            {"schema_version": instant.schema_version},
        )


def in_present_buckets(definition: Table, instant: Instant) -> Table:
    """The definition with the number of buckets that the table had when the instant began.

    A resize may change the number at any time, also after the writer has read the definition.
    """
    if instant.buckets is None:
        return definition
    return definition.with_buckets(instant.buckets)
