"""Bodies of the REST API for adoption: a Hudi table comes in with its history."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.files import WriteStat
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    WRITE_STATS_MAX,
    FileGroups,
    LeaseSeconds,
    Writer,
)
from chronolake_model.names import decoder_pattern
from chronolake_model.tables import PROPERTIES_BYTES_MAX, CreateTable, Properties, Table, refuse_larger
from chronolake_model.vocabulary import (
    ADOPTED_PROPERTY,
    ADOPTING_PROPERTY,
    TIMELINE_DIGEST_PATTERN,
    Action,
    Operation,
)

__all__ = ["ADOPTED_PROPERTY", "ADOPTING_PROPERTY", "TIMELINE_DIGEST_PATTERN"]
"""Words of the vocabulary that these bodies have."""

ADOPTED_INSTANTS_MAX: Final = 100_000
ADOPTED_METADATA_BYTES_MAX: Final = 64 * PROPERTIES_BYTES_MAX
"""Bytes, as JSON, of the metadata of all instants of an adopted table."""
LEFT_OUT_MAX: Final = 100
LEFT_OUT_CHARS_MAX: Final = 2_000
HUDI_TIME_PATTERN: Final = r"^[0-9]{17}$"
HudiTime = Annotated[
    str,
    Meta(pattern=decoder_pattern(HUDI_TIME_PATTERN), description="A time as Hudi writes it, 17 digits."),
]


def timeline_digest(paths: Iterable[str]) -> str:
    """The digest of the names of all files of a timeline, in any order."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()


class AdoptedInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An instant of the table's history, with its own times. Without a ``completion_time`` it is pending.

    ``action`` is the one that it was begun as: a compaction is not a commit. ``target`` is the instant that a
    savepoint pins. ``planned_file_groups`` are those of a pending compaction, log compaction or clustering.
    ``cleaned_before`` is, for a clean, the first completion time that the table was served as of after it.
    """

    requested_time: HudiTime
    action: Action
    completion_time: HudiTime | None = None
    operation: Operation = Operation.UNKNOWN
    write_stats: Annotated[list[WriteStat], Meta(max_length=WRITE_STATS_MAX)] = []
    extra_metadata: Properties = {}
    replaced_file_groups: FileGroups = []
    planned_file_groups: FileGroups = []
    target: HudiTime | None = None
    cleaned_before: HudiTime | None = None

    def __post_init__(self) -> None:
        if self.extra_metadata:
            refuse_larger("extra_metadata", self.extra_metadata, PROPERTIES_BYTES_MAX)


class AdoptTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Adopt a table that Hudi has written, where it is: with its definition and its history.

    ``instants`` are in any order; no two times of them are equal, and all are in the past. ``cleaned_before``
    is the first completion time that the table is served as of. The pending instants are then held by
    ``writer``, with a lease, to be rolled back. The table has the tick 1ms, and the index ``bloom`` or
    ``simple``.
    """

    definition: CreateTable
    instants: Annotated[list[AdoptedInstant], Meta(max_length=ADOPTED_INSTANTS_MAX)]
    writer: Writer
    cleaned_before: HudiTime | None = None
    left_out: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=LEFT_OUT_CHARS_MAX)]],
        Meta(
            max_length=LEFT_OUT_MAX,
            description="The instants of the table's archived timeline that do not come in, in words, and why: "
            "the log keeps it for auditors.",
        ),
    ] = []
    is_published: Annotated[
        bool,
        Meta(
            description="Whether the table's folder has the timeline as Hudi reads it from version 8 on: it "
            "stays as it is, and publication begins after it."
        ),
    ] = True
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        metadata = [instant.extra_metadata for instant in self.instants if instant.extra_metadata]
        refuse_larger("the extra_metadata of all instants", metadata, ADOPTED_METADATA_BYTES_MAX)


class AdoptionCheck(msgspec.Struct, frozen=True):
    """The answer for a table that could be adopted: what the claim in its folder may say.

    ``metastore_id`` is the identity of the metastore's database. ``took_over`` are the ids of the dropped
    tables whose base paths the table would take over.
    """

    metastore_id: str
    took_over: list[str] = []


class AdoptedTable(msgspec.Struct, frozen=True):
    """The adopted table. ``version`` is that of the last event of its history: what follows is written here."""

    table: Table
    version: int
