"""Bodies of the REST API for streams: the checkpoints of a streaming writer and their instants.

Source: the coordinator of Hudi's Flink writer (HUDI PR 13543), with the corrections of
docs/decisions/0058-streams.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.files import WriteStat
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    STAGED_MAX,
    Instant,
    InstantTime,
    LeaseSeconds,
    Reason,
    Writer,
)
from chronolake_model.names import decoder_pattern
from chronolake_model.tables import PROPERTIES_BYTES_MAX, Properties, refuse_larger
from chronolake_model.vocabulary import (
    NO_CHECKPOINT,
    TASKS_MAX,
    Operation,
)

__all__ = ["NO_CHECKPOINT", "TASKS_MAX"]
"""Words of the vocabulary that these bodies have."""

STREAM_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:@=~-]{0,254}$"

StreamName = Annotated[
    str,
    Meta(
        pattern=decoder_pattern(STREAM_NAME_PATTERN),
        description="The name of a stream: 1 to 255 letters, digits and _.:@=~-, a letter or digit first.",
    ),
]
Epoch = Annotated[
    int, Meta(ge=1, le=2**62, description="The epoch of the stream, from the answer that opened it.")
]
Checkpoint = Annotated[
    int,
    Meta(
        ge=NO_CHECKPOINT,
        le=2**62,
        description="The id of the last barrier that the task has passed, or -1 before the first.",
    ),
]
CheckpointId = Annotated[int, Meta(ge=0, le=2**62, description="The id of a checkpoint.")]
Task = Annotated[
    str, Meta(min_length=1, max_length=255, description="The id of a task, unique within the stream.")
]
Attempt = Annotated[
    int,
    Meta(
        ge=0,
        le=2**31 - 1,
        description="How often the task was restarted alone, from the answer to its last restart.",
    ),
]


class OpenStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Open a stream: it gets a new epoch, and requests with an earlier one are refused from then on.

    With ``restored_checkpoint``, the job continues from that checkpoint: what was written after it is rolled
    back, what is before it stays until it is completed. Without it everything pending is rolled back. These
    rollbacks get the ``reason``, if there is one.
    """

    writer: Writer
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT
    tasks: Annotated[
        Annotated[int, Meta(ge=1, le=TASKS_MAX)] | None,
        Meta(description="How many tasks write. The end of the input needs it."),
    ] = None
    restored_checkpoint: CheckpointId | None = None
    reason: Reason = ""


class RenewStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Renew the lease of a stream, which holds all of its pending instants."""

    epoch: Epoch
    lease_seconds: LeaseSeconds | None = None


class RequestInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask for the instant of a checkpoint. Ask at the first flush after a barrier, not before."""

    epoch: Epoch
    task: Task
    checkpoint: Checkpoint
    attempt: Attempt = 0
    operation: Operation = Operation.UNKNOWN
    blocking: Annotated[
        bool,
        Meta(
            description=(
                "Whether the instant may begin only when the stream has no other pending one. Then the tasks "
                "may write what conflicts with other writes, such as new base files of existing file groups."
            )
        ),
    ] = False


class StreamInstant(msgspec.Struct, frozen=True):
    """The instant of a checkpoint. The data files of the checkpoint have its requested time in their names."""

    table: str
    stream: str
    checkpoint: int
    requested_time: str
    blocking: bool


class ReportWriteMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Report files that a task wrote into the instant of a checkpoint.

    Several reports of a task are merged; a file that was reported before counts once. Before it passes the next
    barrier, a task reports its ``last_batch`` for the checkpoint.
    """

    epoch: Epoch
    task: Task
    checkpoint: Checkpoint
    attempt: Attempt = 0
    requested_time: Annotated[
        InstantTime | None, Meta(description="The instant. A task without files may leave it out.")
    ] = None
    write_stats: Annotated[list[WriteStat], Meta(max_length=STAGED_MAX)] = []
    last_batch: Annotated[bool, Meta(description="Whether the task has reported all for the checkpoint.")] = (
        False
    )
    end_of_input: Annotated[bool, Meta(description="Whether the task will never write again.")] = False
    bootstrap: Annotated[
        bool,
        Meta(
            description=(
                "Whether a restored task sends again what it has in its state. If the instant has completed "
                "since, that is no error then."
            )
        ),
    ] = False
    extra_metadata: Annotated[
        Properties,
        Meta(
            description=(
                "Published with the instant, beside that of the acknowledgement. A report that says nothing "
                "else that is new does not add any. What all tasks report for a checkpoint has 1 MiB at most, "
                "and the instant, where the tasks' values of one name become one, 262,144 bytes."
            )
        ),
    ] = {}
    based_on_reads: Annotated[
        bool,
        Meta(description="As in completing an instant. Only for an instant that began with blocking."),
    ] = False
    keys_looked_up: Annotated[
        bool,
        Meta(description="As in completing an instant. Only for an instant that began with blocking."),
    ] = False

    def __post_init__(self) -> None:
        if self.extra_metadata:
            refuse_larger("extra_metadata", self.extra_metadata, PROPERTIES_BYTES_MAX)


class ReportedWriteMetadata(msgspec.Struct, frozen=True):
    """How many ``files`` of a report were new. ``is_completed`` if the instant had completed before."""

    table: str
    stream: str
    checkpoint: int
    requested_time: str | None
    files: int
    is_completed: bool = False


class CompleteCheckpoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Say that a checkpoint is complete: the instants of all earlier checkpoint ids complete, in their order.

    Without a ``checkpoint``, everything completes that is left, once all tasks have reported the end of input.
    ``extra_metadata`` is published with each of the instants.
    """

    epoch: Epoch
    checkpoint: CheckpointId | None = None
    extra_metadata: Properties = {}

    def __post_init__(self) -> None:
        if self.extra_metadata:
            refuse_larger("extra_metadata", self.extra_metadata, PROPERTIES_BYTES_MAX)


class CompletedCheckpoints(msgspec.Struct, frozen=True):
    """The instants that completed, in their order, and the requested times of those that had no files."""

    table: str
    stream: str
    instants: list[Instant]
    rolled_back: list[str]


class AbortCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Say that a checkpoint was aborted. Its files stay, and the next checkpoint completes them."""

    epoch: Epoch
    checkpoint: CheckpointId
    reason: Reason = ""


class RestartTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Say that a task restarts alone, from a checkpoint. Its later reports do not count."""

    epoch: Epoch
    task: Task
    restored_checkpoint: Annotated[
        CheckpointId | None, Meta(description="None if the task begins from the start.")
    ] = None


class RestartedTask(msgspec.Struct, frozen=True):
    """The next ``attempt`` of a task, which its requests have from now on."""

    table: str
    stream: str
    task: str
    attempt: int
    dropped_files: int


class CloseStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Close a stream without pending instants: the job has ended."""

    epoch: Epoch
    reason: Reason = ""


class TaskReport(msgspec.Struct, frozen=True):
    """The files that a task has reported for a checkpoint.

    Its ``extra_metadata`` is only in the stream itself (``GET``).
    """

    files: int
    size_bytes: int
    records: int
    last_batch: bool
    extra_metadata: Properties = {}


class BufferedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint whose instant is pending, with the reports by task."""

    checkpoint: int
    requested_time: str
    epoch: int
    blocking: bool
    files: int
    size_bytes: int
    tasks: dict[str, TaskReport]


class Stream(msgspec.Struct, frozen=True):
    """A stream as it stands.

    ``acknowledged_checkpoint`` is the last checkpoint that is known to be complete. ``waits_until`` is when the
    server rolls the pending instants back, if the lease has ended and the stream is not opened before.
    ``checkpoints`` is its buffer, oldest first. Their tasks are only in the stream itself (``GET``), and in the
    answer to who opens it.
    """

    table: str
    name: str
    epoch: int
    writer: str
    opened_at: str
    is_open: bool
    lease_seconds: int
    lease_expires_at: datetime
    waits_until: datetime | None
    tasks: int | None
    ended_tasks: int
    acknowledged_checkpoint: int | None
    buffered_files: int
    buffered_bytes: int
    checkpoints: list[BufferedCheckpoint]
    version: int


class StreamPage(msgspec.Struct, frozen=True):
    """The streams of a table, by their names."""

    table: str
    streams: list[Stream]
    next_cursor: str | None
