"""Results of commands, in the words of the domain. A dialect (``api/v1``) renders them as answers.

A result is recorded as JSON, with the name and the revision of its class. A class whose fields change gets a
new revision; the class of the earlier one stays, because recorded results are rendered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.grants import StoredGrant
from chronolake_metastore.domain.instants import TableInstant
from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.domain.services import Held
from chronolake_metastore.domain.table_streams import TableStream
from chronolake_metastore.domain.tables import Table
from chronolake_model import decoding
from chronolake_model.problems import ProblemCode
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import WriteSummary


def _tag(class_name: str) -> str:
    return f"{class_name}/1"


class Recorded(msgspec.Struct, frozen=True, kw_only=True, tag=_tag, omit_defaults=True):
    """A result or a refusal, as the outcome of a command has it."""


class Result(Recorded, frozen=True, kw_only=True):
    """The result of a command. ``log_id`` is the id of the log concerned: that of a table, or the catalog's.

    ``is_new`` says whether the command has made the object that it is about.
    """

    log_id: UUID
    is_new: bool = False


class NamespaceResult(Result, frozen=True, kw_only=True):
    """A new namespace."""

    namespace: Namespace
    is_new: bool = True


class DropResult(Result, frozen=True, kw_only=True):
    """A table or a namespace was dropped."""


class TableResult(Result, frozen=True, kw_only=True):
    """A table that was created, or changed. ``took_over`` are the dropped tables whose folder it has."""

    table: Table
    metastore_id: UUID
    took_over: Sequence[UUID] = ()


class AdoptionResult(Result, frozen=True, kw_only=True):
    """A table that was adopted from Hudi; ``version`` is the last one of its history."""

    table: Table
    metastore_id: UUID
    took_over: Sequence[UUID]
    version: int
    is_new: bool = True


class SchemaResult(Result, frozen=True, kw_only=True):
    """The schema that a table has got."""

    table: str
    schema: Schema


class InstantResult(Result, frozen=True, kw_only=True):
    """An instant after the command."""

    of: TableInstant


class BegunInstantsResult(Result, frozen=True, kw_only=True):
    """Instants that differ from the first in their requested times, and in their versions, which are dense."""

    first: TableInstant
    requested_times: Sequence[Micros]
    is_new: bool = True


class CompletedInstantsResult(Result, frozen=True, kw_only=True):
    """Instants that completed together, in the order of the command."""

    instants: Sequence[TableInstant]


class StagingResult(Result, frozen=True, kw_only=True):
    """Write stats that were staged in ``version``."""

    table: str
    tick: Tick
    requested_time: Micros
    version: int
    summary: WriteSummary
    is_new: bool = True


class DeletionsResult(Result, frozen=True, kw_only=True):
    """The number of deleted files that ``version`` records."""

    table: str
    tick: Tick
    requested_time: Micros
    version: int
    files: int
    is_new: bool = True


class SweepResult(Result, frozen=True, kw_only=True):
    """A sweep of an instant; ``unswept_since`` is None if it need not be swept again."""

    table: str
    tick: Tick
    requested_time: Micros
    late_files: int
    unswept_since: Micros | None


class CleanResult(Result, frozen=True, kw_only=True):
    """The clean that was planned, or was pending; None if there is nothing to clean."""

    table: str
    clean: TableInstant | None


class ServicesResult(Result, frozen=True, kw_only=True):
    """The plans of table services that a round has recorded, and why not more."""

    table: str
    instants: Sequence[TableInstant]
    held: Sequence[Held]


class HudiFilesResult(Result, frozen=True, kw_only=True):
    """The version that records foreign files; None if it would repeat the last event."""

    table: str
    version: int | None


class StreamResult(Result, frozen=True, kw_only=True):
    """A stream after the command."""

    of: TableStream


class StreamInstantResult(Result, frozen=True, kw_only=True):
    """The instant of a checkpoint."""

    table: str
    tick: Tick
    stream: str
    checkpoint: int
    requested_time: Micros
    is_blocking: bool


class WriteMetadataResult(Result, frozen=True, kw_only=True):
    """The number of files of a report that were new; the instant is None if none takes them."""

    table: str
    tick: Tick
    stream: str
    checkpoint: int
    requested_time: Micros | None
    files: int
    is_completed: bool


class CheckpointsResult(Result, frozen=True, kw_only=True):
    """The instants of a stream that completed, and those that were rolled back because they have no files."""

    table: str
    tick: Tick
    stream: str
    instants: Sequence[TableInstant]
    rolled_back: Sequence[Micros]


class TaskResult(Result, frozen=True, kw_only=True):
    """A task that was restarted, and the number of its files that were dropped."""

    table: str
    stream: str
    task: str
    attempt: int
    dropped_files: int


class EraResult(Result, frozen=True, kw_only=True):
    """An era of the log that an archive has."""

    era: int


class TokenResult(Result, frozen=True, kw_only=True):
    """A token that was created, rotated or revoked."""

    token_id: str


class LocationResult(Result, frozen=True, kw_only=True):
    """A location that was allowed or revoked; not ``is_changed`` if it was before."""

    location: str
    is_changed: bool


class VendingResult(Result, frozen=True, kw_only=True):
    """Credentials that were vended are recorded in ``version``."""

    version: int


class GrantResult(Result, frozen=True, kw_only=True):
    """A role that was granted. ``is_new`` if the subject had none there."""

    grant: StoredGrant


class Refused(Recorded, frozen=True, kw_only=True):
    """A refusal with all of its context. ``place`` is that of the request (``Context.place``)."""

    code: ProblemCode
    detail: str
    context: dict[str, Any]
    place: str


AnyResult: TypeAlias = (
    NamespaceResult
    | DropResult
    | TableResult
    | AdoptionResult
    | SchemaResult
    | InstantResult
    | BegunInstantsResult
    | CompletedInstantsResult
    | StagingResult
    | DeletionsResult
    | SweepResult
    | CleanResult
    | ServicesResult
    | HudiFilesResult
    | StreamResult
    | StreamInstantResult
    | WriteMetadataResult
    | CheckpointsResult
    | TaskResult
    | EraResult
    | TokenResult
    | LocationResult
    | GrantResult
    | VendingResult
)
AnyRecorded: TypeAlias = AnyResult | Refused


def decode(request_id: str, recorded: bytes) -> AnyRecorded:
    """A recorded result or refusal; raises ``UnknownOutcome`` if another release has recorded it."""
    try:
        recorded_value: AnyRecorded = decoding.decode(recorded, AnyRecorded)
    except msgspec.DecodeError as exc:
        raise errors.UnknownOutcome(request_id) from exc
    return recorded_value
