"""Bodies of the REST API for table services: what would be planned, what was planned, and who executes it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.files import FileGroupName
from chronolake_model.instants import Instant, Writer
from chronolake_model.tables import PROPERTIES_BYTES_MAX, Properties, refuse_larger
from chronolake_model.vocabulary import HeldReason, State, TableService

__all__ = ["HeldReason", "TableService"]
"""Words of the vocabulary that these bodies have."""

SERVICES_LIMIT_MAX = 100
"""The largest page of tables that a server gives."""


class PlannedService(msgspec.Struct, frozen=True):
    """One instant that a round of planning would record now.

    ``size_bytes`` is the input: the base files and log files of its ``file_groups``. ``files_before`` counts
    these files, ``files_after`` the files that take their place. ``details`` are those of the plan.
    """

    service: TableService
    file_groups: int
    size_bytes: int
    files_before: int
    files_after: int
    details: dict[str, str] = {}


class HeldService(msgspec.Struct, frozen=True):
    """Why a service is not planned, or not for ``file_groups`` file groups; ``example`` is one of them.

    ``message`` says it with the figures of the table, and what changes it.
    """

    service: TableService
    reason: HeldReason
    message: str
    file_groups: int = 0
    example: FileGroupName | None = None


class ServicesPreview(msgspec.Struct, frozen=True):
    """The instants that planning would record now, and why it would not record more.

    ``is_due`` if planning would change anything: there are ``plans``, a clean without files is due, or
    partitions have changed in which clustering has not looked for small files.
    """

    table: str
    plans: list[PlannedService]
    held: list[HeldService]
    is_due: bool


class PlanServices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Plan what the policies of the table ask for.

    ``services`` are all four unless given. With ``force`` the triggers and the switches of the policies do not
    count; what protects writers, readers and savepoints always does. ``details`` are added to those of each
    plan, for its executor; properties of policies among them count in place of those of the table.
    """

    writer: Writer
    services: Annotated[list[TableService], Meta(max_length=4)] = []
    force: bool = False
    details: Properties = {}

    def __post_init__(self) -> None:
        refuse_larger("details", self.details, PROPERTIES_BYTES_MAX)


class ServicesPlanned(msgspec.Struct, frozen=True):
    """The instants that the round has recorded, each requested and without a lease; none is no error.

    Any executor may take them: ``POST …/instants/{requested_time}/inflight``.
    """

    table: str
    instants: list[Instant]
    held: list[HeldService]


class PendingService(msgspec.Struct, frozen=True):
    """A plan that is not completed. ``executor`` is the writer that executes it; null if none does.

    It was taken ``executions`` times, the present one included. The last of them that ended without success was
    that of ``last_executor``, ``failed_seconds_ago``, and ``last_failure`` is the reason that was given.
    """

    service: TableService
    requested_time: str
    state: State
    file_groups: int
    executor: str | None
    age_seconds: float
    executions: int
    last_executor: str | None
    last_failure: str | None
    failed_seconds_ago: float | None
    lease_seconds_left: float | None


class ServiceRun(msgspec.Struct, frozen=True):
    """The last completed run of a service: the files that left the latest slices, and those that came.

    A log compaction takes no file out of its slice. A clean deletes ``files_before`` files of the past, whose
    bytes are not known.
    """

    service: TableService
    requested_time: str
    completion_time: str
    writer: str
    files_before: int
    bytes_before: int | None
    files_after: int
    bytes_after: int


class ExpiredService(msgspec.Struct, frozen=True):
    """A plan that the server rolled back, because no executor had completed it in time.

    ``reason`` says how long that was, and with which error the last execution ended.
    """

    service: TableService
    requested_time: str
    reason: str


class ServicesStatus(msgspec.Struct, frozen=True):
    """The table services of one table.

    ``pending`` are the first hundred of ``pending_count`` plans, the oldest first. ``oldest_waiting_seconds``
    is how long the oldest plan without an executor has waited. ``cancelled_clusterings`` are those that writes
    have cancelled since the last completed one: a table that is written all the time may starve them.
    ``expired`` are plans that expired and are the newest of their services.
    """

    table: str
    pending: list[PendingService]
    pending_count: int
    oldest_waiting_seconds: float | None
    last_runs: list[ServiceRun]
    expired: list[ExpiredService]
    cancelled_clusterings: int


class ServicesPage(msgspec.Struct, frozen=True):
    """The table services of tables, in the order of their names."""

    tables: list[ServicesStatus]
    next_cursor: str | None
