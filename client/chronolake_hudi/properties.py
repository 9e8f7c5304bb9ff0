"""The properties of a Hudi table, ``.hoodie/hoodie.properties`` (Hudi: HoodieTableConfig).

Table version 8, which readers of Hudi 1.0.2 on know, names the ordering fields
``hoodie.table.precombine.field`` and needs the payload class beside the merge mode; version 9 names them
``hoodie.table.ordering.fields``. Versions 3 to 6 are only read. No ``hoodie.table.checksum`` is written: Java
compares it only if it is there, and fails if it is wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from chronolake_hudi import java_properties
from chronolake_hudi.errors import DamagedFile, UnsupportedFormat
from chronolake_hudi.timeline_files import Layout
from chronolake_model.vocabulary import TableType

HISTORY_PATH_KEY: Final = "hoodie.timeline.history.path"
PATH: Final = ".hoodie/hoodie.properties"
"""Relative to the table's base path."""
GUARD_CLASS: Final = "io.chronolake.ThisTableIsWrittenThroughChronolake"
"""A key generator class that does not exist: Hudi's writers load it first and fail, its readers do not load
it."""
_ADVICE: Final = "restore the file from .hoodie/hoodie.properties.backup or from a copy"


class TableVersion(enum.IntEnum):
    """The versions of tables that are read; 8 and 9 are written too.

    Versions 3 to 5, of Hudi 0.10 to 0.13, have the timeline and the files of version 6. Older ones have
    instants of 14 digits. No release wrote version 7.
    """

    THREE = 3
    FOUR = 4
    FIVE = 5
    SIX = 6
    EIGHT = 8
    NINE = 9

    @property
    def layout(self) -> Layout:
        """The layout of its timeline."""
        return Layout.ONE if self <= TableVersion.SIX else Layout.TWO


class HudiMergeMode(enum.StrEnum):
    """Which of two records of one key wins (Hudi: RecordMergeMode): the later instant's, or the one of the
    greater ordering value."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class TableConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a table.

    ``merge_mode`` is null for tables before version 8 that do not state it. ``key_generator_class`` is
    ``GUARD_CLASS`` for tables that only Chronolake writes. ``others`` are all other properties by their full
    names; they are kept as they are.
    """

    name: str
    type: TableType
    version: TableVersion = TableVersion.EIGHT
    record_key_fields: tuple[str, ...] = ()
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    merge_mode: HudiMergeMode | None = None
    base_file_format: str = "PARQUET"
    timezone: str = "UTC"
    hive_style_partitioning: bool = True
    url_encode_partitioning: bool = False
    drop_partition_columns: bool = False
    meta_fields: bool = True
    key_generator_class: str | None = None
    others: Mapping[str, str] = {}

    @property
    def is_guarded(self) -> bool:
        """Whether Hudi's writers are refused."""
        return self.key_generator_class == GUARD_CLASS


TABLE_ID_KEY: Final = "chronolake.table-id"
"""The key that says which table of Chronolake has written the file."""
_CDC: Final = "hoodie.table.cdc.enabled"
_METADATA_TABLE: Final = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
_NAME: Final = "hoodie.table.name"
_TYPE: Final = "hoodie.table.type"
_VERSION: Final = "hoodie.table.version"
_LAYOUT: Final = "hoodie.timeline.layout.version"
_RECORD_KEYS: Final = "hoodie.table.recordkey.fields"
_PARTITIONS: Final = "hoodie.table.partition.fields"
_PRECOMBINE: Final = "hoodie.table.precombine.field"
_ORDERING: Final = "hoodie.table.ordering.fields"
_MERGE_MODE: Final = "hoodie.record.merge.mode"
_MERGE_STRATEGY: Final = "hoodie.record.merge.strategy.id"
_PAYLOAD: Final = "hoodie.compaction.payload.class"
_BASE_FORMAT: Final = "hoodie.table.base.file.format"
_TIMEZONE: Final = "hoodie.table.timeline.timezone"
_HIVE_STYLE: Final = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODE: Final = "hoodie.datasource.write.partitionpath.urlencode"
_DROP_PARTITIONS: Final = "hoodie.datasource.write.drop.partition.columns"
_META_FIELDS: Final = "hoodie.populate.meta.fields"
_KEY_GENERATOR: Final = "hoodie.table.keygenerator.class"
_CHECKSUM: Final = "hoodie.table.checksum"

_TABLE_TYPES: Final = {table_type.name: table_type for table_type in TableType}
# What Hudi itself writes into tables of version 8 for its two merge modes.
_PAYLOAD_CLASSES: Final = {
    HudiMergeMode.COMMIT_TIME: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    HudiMergeMode.EVENT_TIME: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
_MERGE_STRATEGIES: Final = {
    HudiMergeMode.COMMIT_TIME: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    HudiMergeMode.EVENT_TIME: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
}


def encode(config: TableConfig) -> bytes:
    """The content of hoodie.properties. The same properties give the same bytes.

    Raises ``UnsupportedFormat`` for version 6.
    """
    return java_properties.encode(
        _stated(config), "Written by Chronolake; change the table through Chronolake only"
    )


def decode(content: bytes, path: str = PATH) -> TableConfig:
    """The properties in the file ``path``.

    Raises ``DamagedFile`` if one that no table lacks is missing, and ``UnsupportedFormat`` for another
    version or another layout than its version's.
    """
    properties = java_properties.decode(content, path)
    version = _parse_version(properties, path)
    return TableConfig(
        name=_required(properties, _NAME, path),
        type=_parse_type(properties, path),
        version=version,
        record_key_fields=_list_of(properties.get(_RECORD_KEYS)),
        partition_fields=_list_of(properties.get(_PARTITIONS)),
        ordering_fields=_list_of(properties.get(_ORDERING) or properties.get(_PRECOMBINE)),
        merge_mode=_parse_merge_mode(properties, path),
        base_file_format=properties.get(_BASE_FORMAT, "PARQUET"),
        # Java's default; only a table that states UTC has the same times on every machine.
        timezone=properties.get(_TIMEZONE, "LOCAL"),
        hive_style_partitioning=_flag(properties, _HIVE_STYLE, False),
        url_encode_partitioning=_flag(properties, _URL_ENCODE, False),
        drop_partition_columns=_flag(properties, _DROP_PARTITIONS, False),
        meta_fields=_flag(properties, _META_FIELDS, True),
        key_generator_class=properties.get(_KEY_GENERATOR),
        others={key: value for key, value in properties.items() if key not in _KNOWN},
    )


def adopted(text: str, table_id: str, version: TableVersion, default_mode: HudiMergeMode) -> TableConfig:
    """The properties of a table that Hudi has written before: ``text`` is its hoodie.properties of then.

    The guard is new, and the metadata table is left out: it is not updated any more. Nor is change
    data captured. Raises as ``decode``.
    """
    config = decode(text.encode("latin-1"))
    others = {key: value for key, value in config.others.items() if key not in _METADATA_TABLE}
    if _CDC in others:
        others[_CDC] = "false"
    return msgspec.structs.replace(
        config,
        version=version,
        merge_mode=config.merge_mode or default_mode,
        key_generator_class=GUARD_CLASS,
        others={**others, TABLE_ID_KEY: table_id},
    )


_KNOWN: Final = frozenset(
    {
        _NAME,
        _TYPE,
        _VERSION,
        _LAYOUT,
        _RECORD_KEYS,
        _PARTITIONS,
        _PRECOMBINE,
        _ORDERING,
        _MERGE_MODE,
        _BASE_FORMAT,
        _TIMEZONE,
        _HIVE_STYLE,
        _URL_ENCODE,
        _DROP_PARTITIONS,
        _META_FIELDS,
        _KEY_GENERATOR,
        _CHECKSUM,
    }
)


def _stated(config: TableConfig) -> dict[str, str]:
    stated = {
        **config.others,
        _NAME: config.name,
        _TYPE: config.type.name,
        _VERSION: str(config.version.value),
        _LAYOUT: str(config.version.layout.value),
        _BASE_FORMAT: config.base_file_format,
        _TIMEZONE: config.timezone,
        _HIVE_STYLE: _word(config.hive_style_partitioning),
        _URL_ENCODE: _word(config.url_encode_partitioning),
        _DROP_PARTITIONS: _word(config.drop_partition_columns),
        _META_FIELDS: _word(config.meta_fields),
        # Java returns no rows, and no error, if a table without partitions does not state that it has none.
        _PARTITIONS: ",".join(config.partition_fields),
    }
    if config.record_key_fields:
        stated[_RECORD_KEYS] = ",".join(config.record_key_fields)
    if config.key_generator_class is not None:
        stated[_KEY_GENERATOR] = config.key_generator_class
    if config.merge_mode is not None:
        stated[_MERGE_MODE] = config.merge_mode
    return stated | _of_version(config)


def _of_version(config: TableConfig) -> dict[str, str]:
    match config.version:
        case TableVersion.THREE | TableVersion.FOUR | TableVersion.FIVE | TableVersion.SIX:
            raise UnsupportedFormat(
                PATH, f"tables of version {config.version.value} are only read", "write version 8 or 9"
            )
        case TableVersion.EIGHT:
            return _of_version_8(config)
        case TableVersion.NINE:
            return {_ORDERING: ",".join(config.ordering_fields)} if config.ordering_fields else {}
        case _:
            assert_never(config.version)


def _of_version_8(config: TableConfig) -> dict[str, str]:
    # Several fields are of Hudi 1.1 and later, which names them so in tables of all versions.
    name = _PRECOMBINE if len(config.ordering_fields) == 1 else _ORDERING
    stated = {name: ",".join(config.ordering_fields)} if config.ordering_fields else {}
    if config.merge_mode in _PAYLOAD_CLASSES:
        stated |= {
            _PAYLOAD: config.others.get(_PAYLOAD, _PAYLOAD_CLASSES[config.merge_mode]),
            _MERGE_STRATEGY: config.others.get(_MERGE_STRATEGY, _MERGE_STRATEGIES[config.merge_mode]),
        }
    return stated


def _parse_version(properties: Mapping[str, str], path: str) -> TableVersion:
    text = _required(properties, _VERSION, path)
    try:
        version = TableVersion(int(text))
    except ValueError:
        raise UnsupportedFormat(
            path,
            f"the table has version {text!r}; versions {', '.join(str(known.value) for known in TableVersion)} "
            "are read",
            "upgrade the table with Hudi, with the procedure upgrade_table",
        ) from None
    # Without the property, Hudi takes the layout that the version has.
    layout = properties.get(_LAYOUT, str(version.layout.value))
    if layout != str(version.layout.value):
        raise UnsupportedFormat(
            path,
            f"a table of version {version.value} has timeline layout {version.layout.value}, not {layout!r}",
            "finish its upgrade with Hudi",
        )
    return version


def _parse_type(properties: Mapping[str, str], path: str) -> TableType:
    text = _required(properties, _TYPE, path)
    if text not in _TABLE_TYPES:
        raise DamagedFile(path, f"{_TYPE} is {text!r}, which is no type of a table", _ADVICE)
    return _TABLE_TYPES[text]


def _parse_merge_mode(properties: Mapping[str, str], path: str) -> HudiMergeMode | None:
    text = properties.get(_MERGE_MODE)
    try:
        return HudiMergeMode(text) if text else None
    except ValueError:
        raise UnsupportedFormat(
            path, f"{_MERGE_MODE} is {text!r}", f"use one of {', '.join(HudiMergeMode)}"
        ) from None


def _required(properties: Mapping[str, str], key: str, path: str) -> str:
    value = properties.get(key)
    if not value:
        raise DamagedFile(path, f"{key} is missing", _ADVICE)
    return value


def _list_of(text: str | None) -> tuple[str, ...]:
    return tuple(field.strip() for field in (text or "").split(",") if field.strip())


def _flag(properties: Mapping[str, str], key: str, default: bool) -> bool:
    return properties.get(key, _word(default)).lower() == "true"


def _word(flag: bool) -> str:
    return "true" if flag else "false"
