"""Publication for Hudi's readers: the properties of tables, and the bodies of the REST API."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.instants import LEASE_SECONDS_DEFAULT
from chronolake_model.names import decoder_pattern
from chronolake_model.vocabulary import Action

PUBLISH_PROPERTY: Final = "hudi.publish"
"""Whether a table is published: true or false. Unless given, tables with a tick of a millisecond are."""
PUBLISHER_PROPERTY: Final = "hudi.publisher"
"""The publisher of a table; see ``Publisher``."""
TABLE_VERSION_PROPERTY: Final = "hudi.table-version"
"""The version of the Hudi table: 8 (the default, read by Hudi 1.0.2 and later) or 9 (Hudi 1.1 and later)."""
PUBLICATION_LEASE_SECONDS_MAX: Final = 300
"""The longest lease of a publisher: while it is silent, other publishers, compactions and cleans may wait."""
LOG_BLOCKS_PROPERTY: Final = "hudi.log-blocks"
"""The format of all data blocks of log files: ``avro``, or ``parquet`` (the default) if others may exist."""
KEEP_MAX_PROPERTY: Final = "hoodie.keep.max.commits"
"""With more commits than this on the published active timeline, the oldest ones leave it for its history."""
KEEP_MIN_PROPERTY: Final = "hoodie.keep.min.commits"
"""The commits that stay then."""
ACTIVE_HOURS_PROPERTY: Final = "hudi.active-hours"
"""The hours for which a commit stays on the published active timeline in any case."""
KEEP_MAX_DEFAULT: Final = 3_000
KEEP_MIN_DEFAULT: Final = 2_000
HISTORY_ROWS: Final = (0, 1_000, 10_000)
"""Commits of a file of the history of a published timeline, by its level. The last file has level 0.

It is written again when instants come to it, and closed when it is full."""
HISTORY_MERGED: Final = 10
"""Files of level 1 that become one of level 2."""
FOREIGN_FILES_MAX: Final = 100
"""Foreign files that a report names."""


class Publisher(enum.StrEnum):
    """The publisher of a table: the servers that reach its storage, or the clients that write to it."""

    SERVER = "server"
    CLIENT = "client"


class PublicationState(enum.StrEnum):
    """Whether a table's publication follows its log."""

    OFF = "off"
    """The table is not published: by its property ``hudi.publish``, or because its tick is a microsecond.

    A table that was published is hidden from Hudi's readers: ``hoodie.properties`` is removed."""
    PAUSED = "paused"
    """Hudi's readers cannot read the table as it is now. What was published stays as it is."""
    PUBLISHING = "publishing"
    """It follows the log."""


PublisherName = Annotated[
    str, Meta(min_length=1, max_length=255, description="The publisher: a host and a process.")
]
Epoch = Annotated[int, Meta(ge=1, le=2**62, description="Of the publisher's lease.")]
Version = Annotated[int, Meta(ge=0, le=2**62, description="A version of the table's log.")]
ForeignFile = Annotated[str, Meta(min_length=1, max_length=1_024)]
HistoryTime = Annotated[
    str, Meta(pattern=decoder_pattern("^[0-9]{17}$"), description="A requested time, 17 digits.")
]


class HistoryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the history of a published timeline: the instants requested from ``begin`` on, before ``end``.

    For its ``level`` see ``HISTORY_ROWS``.
    """

    name: Annotated[
        str,
        Meta(
            pattern=decoder_pattern(r"^[0-9]{17}_[0-9]{17}_[012]\.parquet$"),
            examples=["20260101000000000_20260102000000000_0.parquet"],
        ),
    ]
    size_bytes: Annotated[int, Meta(ge=0, le=2**53)]
    begin: HistoryTime
    end: HistoryTime
    level: Annotated[int, Meta(ge=0, le=2)]


class FormerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a history that the log cannot make again."""

    name: Annotated[
        str,
        Meta(
            pattern=decoder_pattern(r"^[0-9]+_[0-9]+_[0-9]\.parquet$"),
            examples=["20250101000000000_20250102000000000_0.parquet"],
        ),
    ]
    size_bytes: Annotated[int, Meta(ge=0, le=2**53)]


class FormerHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a history that Hudi wrote, and copies of what Hudi had on the active timeline.

    It has the instants requested ``before`` a time; those after it are a function of the log.
    """

    before: HistoryTime
    files: Annotated[list[FormerFile], Meta(max_length=1_000_000)]


class PublishedHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The history of a published timeline: all instants requested ``before`` a time, which left the timeline.

    ``manifest`` is the number of the manifest that names the files, 0 while there is none. The ``former``
    history of an adopted table comes before the ``files``.
    """

    before: HistoryTime
    manifest: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    files: Annotated[list[HistoryFile], Meta(max_length=1_000_000)]
    former: FormerHistory | None = None


class ActiveTimeline(msgspec.Struct, frozen=True):
    """Where the published active timeline begins.

    Instants requested ``before`` are in its history, in ``history_files`` files; null if none are. If more
    commits should have left than could, ``held_by`` says why not, and ``held_since`` is the requested time of
    the instant that holds them, if one does; ``held_seconds`` is its age. ``advice`` says what ends the cause.
    """

    before: str | None
    history_files: int
    held_by: str | None
    held_since: str | None
    held_seconds: float | None = None
    advice: str | None = None


class Publication(msgspec.Struct, frozen=True):
    """How far a table is published for Hudi's readers.

    ``published_version`` is the version of the last event that is published, 0 if none is, and
    ``published_completion`` its time: readers of Hudi see the table as of that time. ``version`` is the last
    version of the table's log. ``lag_seconds`` is the age of the oldest event that is not published; while
    publication is off, or the table was never written, nothing lags. ``reason`` says why publication is off or
    paused, ``failure`` why the last try of a server failed. ``is_visible`` says whether Hudi's readers find the
    table, ``publisher`` who has the lease. ``foreign_files`` are files in ``.hoodie`` that no publisher wrote,
    as found at ``checked_at``. ``active_timeline`` is null until the first look at its length.
    """

    table: str
    state: PublicationState
    publishes: Publisher
    version: int
    published_version: int
    published_completion: str | None
    lag_versions: int
    lag_seconds: float
    reason: str | None
    published_at: datetime | None = None
    is_visible: bool = False
    paused_since: datetime | None = None
    failure: str | None = None
    publisher: str | None = None
    lease_expires_at: datetime | None = None
    foreign_files: list[str] = []
    checked_at: datetime | None = None
    active_timeline: ActiveTimeline | None = None

    @property
    def is_hidden(self) -> bool:
        """Whether publication is off, and Hudi's readers are to find no table."""
        return self.state is PublicationState.OFF and not self.is_visible


class TakePublicationLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Become the publisher of a table, or stay it."""

    publisher: PublisherName
    lease_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=PUBLICATION_LEASE_SECONDS_MAX,
            description="How long the publisher may stay silent, in seconds. A live lease is not extended.",
        ),
    ] = LEASE_SECONDS_DEFAULT


class CheckPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the checks of a table's publication have come to.

    The last check saw the table published up to ``version``, and ``changed_at`` is when the last of the
    timeline's files was written, in seconds since 1970 by the clock of the storage: files of these versions
    that were written later have been changed. Besides, each check compares some files in turn: it begins
    after ``content_version`` and after the partition ``partition``.
    """

    version: Version = 0
    changed_at: Annotated[float, Meta(ge=0, le=10**11)] = 0.0
    content_version: Version = 0
    partition: Annotated[str, Meta(max_length=1_024)] = ""


class PublicationLease(msgspec.Struct, frozen=True):
    """The lease of a publisher: it executes the steps after ``published_version``.

    ``is_new`` says whether the table had another publisher before: then ``.hoodie`` is to be checked, from
    ``check_position`` on. ``files_since`` is the earliest time that a data file of the table can have; null for
    an adopted table, whose files Hudi wrote before. With ``hides``, publication is off: nothing is published,
    and ``hoodie.properties`` is to be removed, so that Hudi's readers find no table. ``has_history`` says
    whether instants have left the active timeline, ``history_is_due`` whether it is time for others to leave.
    """

    table: str
    table_id: str
    publisher: str
    epoch: int
    published_version: int
    version: int
    is_new: bool
    lease_expires_at: datetime
    check_position: CheckPosition = CheckPosition()
    files_since: str | None = None
    hides: bool = False
    has_history: bool = False
    history_is_due: bool = False


class PublishedFile(msgspec.Struct, frozen=True):
    """A file to write whole; ``path`` is relative to the table's base path. JSON has its content in base64."""

    path: str
    content: bytes


class PublicationStep(msgspec.Struct, frozen=True):
    """The changes of one event of the log: files to write, then files to remove, each in this order."""

    version: int
    writes: list[PublishedFile] = []
    removes: list[str] = []


class PublicationSteps(msgspec.Struct, frozen=True):
    """Steps in the order of the log; events that change nothing have none.

    When all are executed, the table is published up to ``version``. ``is_last`` says whether this is the end of
    the log, or a pause. While the table ``is_hidden`` from readers, the files of a page may be written in any
    order, but for ``hoodie.properties``.
    """

    table: str
    table_id: str
    steps: list[PublicationStep]
    version: int
    is_last: bool
    is_hidden: bool


class PublicationFiles(msgspec.Struct, frozen=True):
    """The files that a range of published events has left in ``.hoodie``, for the check of the folder.

    ``written`` are the files of the timeline that the events up to ``version`` wrote, each with the version of
    its step; ``removed`` are those that they removed. ``properties`` is the content of ``hoodie.properties`` by
    now; null while the table is hidden from readers. ``adopted_at`` is the time up to which Hudi itself wrote
    the timeline of an adopted table: its files of earlier times stay as they are, also those of the layout of
    version 6. Instants of the ``history`` are not among the files.
    """

    table: str
    written: dict[str, int]
    removed: list[str]
    version: int
    is_last: bool
    properties: bytes | None = None
    adopted_at: str | None = None
    history: PublishedHistory | None = None


class PublicationPartitions(msgspec.Struct, frozen=True):
    """The metadata that Hudi's readers need in the folders of partitions, in the order of the partition paths.

    ``last`` is the path of the last partition; empty after the end of the list.
    """

    table: str
    files: list[PublishedFile]
    last: str


class HistoryRange(msgspec.Struct, frozen=True):
    """A range of requested times, ``end`` excluded, whose instants one file of the history has."""

    begin: str
    end: str
    level: int


class HistoryPlan(msgspec.Struct, frozen=True):
    """A plan of the history of the published timeline: all instants requested ``before`` a time.

    The files ``kept`` stay as they are, unless they are damaged; after them come those of ``ranges``, which are
    to be written. ``written`` is the history as it was reported last. Without ``before`` there is none.
    Instants of the range ``copied`` are copied from the files of the timeline that Hudi wrote, after the
    former history.
    """

    table: str
    before: str | None
    written: PublishedHistory | None = None
    kept: list[HistoryFile] = []
    ranges: list[HistoryRange] = []
    copied: HistoryRange | None = None


class HistoryInstant(msgspec.Struct, frozen=True):
    """An instant of the history, as a row of Hudi's LSM timeline has it.

    ``metadata`` is the content of its completed file, and ``plan`` that of its requested file if it had one.
    """

    requested_time: str
    completion_time: str
    action: Action
    metadata: bytes
    plan: bytes | None = None


class HistoryPage(msgspec.Struct, frozen=True):
    """Instants of a range of requested times, in the order of the log, up to the version ``version`` of it."""

    instants: list[HistoryInstant]
    version: int
    is_last: bool


class PlanHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Decide which instants leave the active timeline next. Only the publisher with the lease may.

    ``former`` is the history of an adopted table as Hudi left it, and is recorded once; null if it is damaged.
    """

    publisher: PublisherName
    epoch: Epoch
    former: PublishedHistory | None = None


class ReportHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The history in storage. ``is_complete`` says that no instant of it is on the active timeline any more."""

    written: PublishedHistory
    is_complete: bool


class RecordedHudiFiles(msgspec.Struct, frozen=True):
    """Whether foreign files were recorded: the version of the event; null if nothing has changed."""

    table: str
    version: int | None


class ReportPublication(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The steps up to ``version`` are executed.

    With ``foreign_files``, ``.hoodie`` was checked, and ``check_position`` is where the next check begins. With
    ``release``, the lease ends. ``foreign_files_total`` is the number of foreign files, of which
    ``foreign_files`` has the first. With ``hidden``, Hudi's readers find no table: a lease with ``hides`` was
    executed. With ``paused``, the next steps were refused (`not-published`): the server records the pause. With
    ``history``, it is in storage, and its manifest is the present one.
    """

    publisher: PublisherName
    epoch: Epoch
    version: Version
    foreign_files: Annotated[list[ForeignFile], Meta(max_length=FOREIGN_FILES_MAX)] | None = None
    foreign_files_total: Annotated[int, Meta(ge=0, le=2**53)] = 0
    release: bool = False
    hidden: bool = False
    paused: bool = False
    check_position: CheckPosition = CheckPosition()
    history: ReportHistory | None = None
