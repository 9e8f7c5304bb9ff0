"""The properties of a table in its folder: guarded against Hudi's writers, or handed back to them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chronolake.hudi import requirements
from chronolake_hudi import java_properties, properties
from chronolake_hudi.properties import HudiMergeMode
from chronolake_hudi.timeline_files import Layout

GENERATOR_CLASS: Final = "hoodie.table.keygenerator.class"
GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
_METADATA_TABLE: Final = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
_CHECKSUM: Final = "hoodie.table.checksum"
"""Java compares it only if it is there."""


def guarded(former: bytes, table_id: str) -> bytes:
    """The properties of an adopted table: ``former`` with the guard, and without the metadata table.

    The metadata table is not updated from now on, so no reader may use it. A table of version 6 stays one until
    its timeline is published in the layout of version 8.
    """
    config = properties.decode(former)
    if config.version.layout is Layout.TWO:
        mode = requirements.merge_mode_of(config) or HudiMergeMode.COMMIT_TIME
        return properties.encode(properties.adopted(former.decode("latin-1"), table_id, config.version, mode))
    stated = java_properties.decode(former, properties.PATH)
    kept = {key: text for key, text in stated.items() if key not in {*_METADATA_TABLE, _CHECKSUM}}
    kept |= {GENERATOR_CLASS: properties.GUARD_CLASS, properties.TABLE_ID_KEY: table_id}
    return java_properties.encode(kept, "Written by Chronolake; change the table through Chronolake only")


def released(stated: Mapping[str, str], before: Mapping[str, str], generator: str) -> bytes:
    """The properties of a released table, for Hudi to write.

    ``before`` are those that an adopted table had: its key generator comes back. ``generator`` is the type of
    the key generator of a table that had none.
    """
    kept = {
        key: text
        for key, text in stated.items()
        if key not in {*_METADATA_TABLE, _CHECKSUM, GENERATOR_CLASS, properties.TABLE_ID_KEY}
    }
    for key in (GENERATOR_CLASS, GENERATOR_TYPE):
        if before.get(key):
            kept[key] = before[key]
    if not kept.get(GENERATOR_CLASS) and not kept.get(GENERATOR_TYPE):
        kept[GENERATOR_TYPE] = generator
    return java_properties.encode(kept, "Released by Chronolake")


def generator_of(record_key_fields: int, partition_fields: int) -> str:
    """The type of the key generator that makes the keys and partition paths that Chronolake makes."""
    if not partition_fields:
        return "NON_PARTITION"
    return "SIMPLE" if record_key_fields == partition_fields == 1 else "COMPLEX"
