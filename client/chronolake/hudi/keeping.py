"""Whether Chronolake makes the record keys and partition paths of a Hudi table as Hudi did, or keeps them.

Those that are kept are recorded with the data, and not computed from columns. So no writer of Chronolake
writes records to such a table (docs/decisions/0042). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from chronolake.hudi.stored import StoredTable
from chronolake_hudi.properties import TableVersion
from chronolake_model.tables import Field

_GENERATORS: Final = frozenset({"SIMPLE", "COMPLEX", "NON_PARTITION"})
_GENERATOR_CLASSES: Final[Mapping[str, str]] = {
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION",
}
_OF_PATHS: Final = frozenset(
    {
        "TIMESTAMP",
        "TimestampBasedKeyGenerator",
        "TimestampBasedAvroKeyGenerator",
        "CUSTOM",
        "CustomKeyGenerator",
        "CustomAvroKeyGenerator",
        "GLOBAL_DELETE",
        "GlobalDeleteKeyGenerator",
        "GlobalAvroDeleteKeyGenerator",
    }
)
"""Generators of Hudi that make other partition paths, and the record keys of the complex generator."""
_KEY_TYPES_KEPT: Final = ("array", "map", "struct", "float", "double", "binary")
_OLD_DEFAULT_PARTITION: Final = "default"
"""The partition of null before table version 5."""


class Kept(msgspec.Struct, frozen=True):
    """Why the record keys, or the partition paths, of a table are kept; None if they are made of columns."""

    keys: str | None = None
    paths: str | None = None

    @property
    def reasons(self) -> list[str]:
        """The reasons that there are."""
        return [reason for reason in (self.keys, self.paths) if reason is not None]


def of(table: StoredTable, schema: Sequence[Field]) -> Kept:
    """The properties that keep record keys or partition paths of a table with these columns as they are."""
    types = {field.name: field.type.strip().lower() for field in schema}
    return Kept(
        next(_of_keys(table, types), table.misfits.keys), next(_of_paths(table, types), table.misfits.paths)
    )


def of_paths_by_generator(table: StoredTable) -> bool:
    """Whether Hudi's readers need the key generator to know that partition values are not in the paths."""
    typed = [name.partition(":")[2].upper() for name in table.config.partition_fields]
    return "TIMESTAMP" in typed or _generator(table).upper().startswith("TIMESTAMP")


def key_fields(table: StoredTable, schema: Sequence[Field]) -> list[str]:
    """The record key fields of the table's definition."""
    return [] if of(table, schema).keys else list(table.config.record_key_fields)


def partition_fields(table: StoredTable, schema: Sequence[Field]) -> list[str]:
    """The partition fields of the table's definition: those that are columns of it."""
    names = {field.name for field in schema}
    fields = [name.partition(":")[0] for name in table.config.partition_fields]
    return [name for name in fields if name in names]


def _generator(table: StoredTable) -> str:
    config = table.config
    stated = config.others.get("hoodie.table.keygenerator.type", "").upper().removesuffix("_AVRO")
    name = (config.key_generator_class or "").rpartition(".")[2]
    return _GENERATOR_CLASSES.get(name, name) if name and not config.is_guarded else stated


def _of_keys(table: StoredTable, types: Mapping[str, str]) -> Iterator[str]:
    generator = _generator(table)
    if generator and generator not in _GENERATORS | _OF_PATHS:
        yield f"its key generator {generator} is a class of its own, which makes its record keys"
    for name in table.config.record_key_fields:
        if name not in types:
            yield f"the record key field {name!r} is within a column"
        elif types[name].startswith(_KEY_TYPES_KEPT):
            yield f"the record key field {name!r} is of type {types[name]}"


def _of_paths(table: StoredTable, types: Mapping[str, str]) -> Iterator[str]:
    generator = _generator(table)
    if generator and generator not in _GENERATORS:
        yield f"its key generator {generator} makes its partition paths"
    for name in table.config.partition_fields:
        column, _, typed = name.partition(":")
        if typed.upper() not in ("", "SIMPLE"):
            yield f"the partition field {name!r} has a key generator of its own"
        if column not in types:
            yield f"the partition field {column!r} is no column of the table"
        elif types[column].startswith(("timestamp", *_KEY_TYPES_KEPT)):
            yield f"the partition field {column!r} is a {types[column]}, which Hudi spells in several ways"
    yield from _of_spelling(table)


def _of_spelling(table: StoredTable) -> Iterator[str]:
    fields, is_hive_style = table.config.partition_fields, table.config.hive_style_partitioning
    for path in sorted({file.partition_path for file, _ in table.data_files}):
        parts = path.split("/") if path else []
        if len(parts) != len(fields):
            yield (
                f"the partition path {path!r} has {len(parts)} parts, and the table {len(fields)} partition "
                "fields"
            )
            return
        for field, part in zip(fields, parts, strict=True):
            if part.startswith(f"{field.partition(':')[0]}=") is not is_hive_style:
                yield (
                    f"the partition path {path!r} is not spelled as hoodie.properties says, "
                    f"hoodie.datasource.write.hive_style_partitioning={str(is_hive_style).lower()}"
                )
            if table.config.version < TableVersion.FIVE and part.rpartition("=")[2] == _OLD_DEFAULT_PARTITION:
                yield f"the partition path {path!r} stands for null in a table of version 4 or older"
