"""The definition of an adopted table: what Chronolake says of it, and what it keeps of Hudi's. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from chronolake.hudi import keeping, requirements
from chronolake.hudi.stored import StoredTable
from chronolake_hudi import properties
from chronolake_hudi.properties import HudiMergeMode, TableVersion
from chronolake_model.adoption import ADOPTED_PROPERTY, ADOPTING_PROPERTY, timeline_digest
from chronolake_model.merge_modes import ORDERING_FIELDS_PROPERTY
from chronolake_model.partition_paths import (
    BY_GENERATOR,
    DEFAULT_SPELLING,
    KEPT_KEYS_PROPERTY,
    KEPT_PROPERTY,
    Spelling,
)
from chronolake_model.publication import PUBLISH_PROPERTY, TABLE_VERSION_PROPERTY
from chronolake_model.tables import CreateTable, NewBucketIndex, NewField
from chronolake_model.vocabulary import IndexType

TEXT_MAX: Final = 16_384


class CannotAdopt(Exception):
    """The table cannot be adopted. ``reasons`` say why, each with what to do."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an adoption: the name of the table here, its folder, and how to treat its files."""

    name: str
    base_path: str
    roll_back_pending: bool = False
    reuse_base_path: bool = False
    skip_damaged_history: bool = False
    properties: Mapping[str, str] = {}


def definition_of(table: StoredTable, options: Options) -> CreateTable:
    """The definition of the table in the request that adopts it. Raises ``CannotAdopt``."""
    config = table.config
    mode = requirements.merge_mode_of(config)
    ordering = config.ordering_fields if mode is HudiMergeMode.EVENT_TIME else ()
    schema = requirements.schema_of(table)
    kept = keeping.of(table, schema)
    by_generator = keeping.of_paths_by_generator(table)
    return CreateTable(
        name=options.name,
        base_path=options.base_path,
        schema=[NewField.of(field) for field in schema],
        record_key_fields=keeping.key_fields(table, schema),
        type=config.type,
        partition_fields=keeping.partition_fields(table, schema),
        ordering_field=ordering[0] if len(ordering) == 1 else None,
        index=NewBucketIndex(IndexType.BLOOM),
        properties={
            # A table that Hudi could not read after its adoption is refused, unless an option says otherwise.
            PUBLISH_PROPERTY: "false" if by_generator else "true",
            **options.properties,
            **_spelling(table).properties,
            **({KEPT_KEYS_PROPERTY: "true"} if kept.keys else {}),
            **({KEPT_PROPERTY: BY_GENERATOR if by_generator else "true"} if kept.paths else {}),
            **({ORDERING_FIELDS_PROPERTY: ",".join(ordering)} if len(ordering) > 1 else {}),
            ADOPTED_PROPERTY: _kept_properties(table),
            ADOPTING_PROPERTY: timeline_digest(path for instant in table.instants for path in instant.paths),
            # Readers that know the table's version go on; version 6 becomes the first that we write.
            TABLE_VERSION_PROPERTY: str(max(config.version, TableVersion.EIGHT).value),
        },
        reuse_base_path=options.reuse_base_path,
    )


def _spelling(table: StoredTable) -> Spelling:
    config = table.config
    if not config.partition_fields:
        return DEFAULT_SPELLING
    return Spelling(config.hive_style_partitioning, config.url_encode_partitioning)


def _kept_properties(table: StoredTable) -> str:
    text = table.text.decode("latin-1")
    if len(text) > TEXT_MAX:
        raise CannotAdopt([f"{properties.PATH} has more than {TEXT_MAX:,} characters"])
    return text
