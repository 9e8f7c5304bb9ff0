"""Archives of the log: runs of rows in object storage, what each holds, and when runs are merged.

A run holds a range of transactions. Its description says, for each chain, which entries it has and the hashes
at both ends, so that the entries between them are proved without a hash beside each.
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.logs import START, ChainHead
from chronolake_metastore.domain.proof import NOTHING, Check, ProofFinding
from chronolake_model import decoding

MERGED_AT_ONCE: Final = 10
"""Number of runs of a level that become one of the next level."""
CHECKPOINT_EVERY: Final = 100
"""The rows of the entries with these numbers have their hashes, so that a reader computes few others."""
BLOCK_BYTES: Final = 1024 * 1024
_SCHEMA_VERSION: Final = 1


class ChainSpan(msgspec.Struct, frozen=True):
    """Consecutive entries of a chain: events of a table by version, or outcomes by number.

    ``before`` is the hash of the entry before the first, ``hash`` that of the last, in hex. ``before`` is empty
    at the beginning of a chain.
    """

    chain_id: UUID
    first: int
    last: int
    before: str
    hash: str


class ChainPlaces:
    """The rows of a run that are entries of chains, by chain and number: the number of each row, from 0."""

    def __init__(self, spans: Sequence[ChainSpan]) -> None:
        self._spans = spans
        self._begins: list[int] = []
        self.rows = 0
        for span in spans:
            self._begins.append(self.rows)
            self.rows += span.last - span.first + 1
        self._by_chain = {span.chain_id: number for number, span in enumerate(spans)}

    def span(self, chain_id: UUID) -> ChainSpan | None:
        """The entries of a chain; None if there are none."""
        number = self._by_chain.get(chain_id)
        return None if number is None else self._spans[number]

    def row(self, chain_id: UUID, number: int) -> int:
        """The row of an entry that the run has."""
        chain = self._by_chain[chain_id]
        return self._begins[chain] + number - self._spans[chain].first

    def entry(self, row: int) -> tuple[UUID, int]:
        """The chain and the number of a row; raises ``IndexError``."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        chain = bisect_right(self._begins, row) - 1
        return self._spans[chain].chain_id, self._spans[chain].first + row - self._begins[chain]


RowKey = tuple[UUID | int, int]
"""The first two columns of a row, by which the rows of a run are sorted."""


class RowBounds(msgspec.Struct, frozen=True):
    """The number of rows of a file, the first and the last, and the range of the instants that they name."""

    rows: int
    first: RowKey
    last: RowKey
    instants: tuple[int, int] | None = None


class ArchivedFile(msgspec.Struct, frozen=True):
    """A Parquet file of a run: rows of one table of the log, or of an index of the run.

    ``sha256`` has the digests of its blocks, so that a reader of a part can compare it. Each block but the last
    has ``BLOCK_BYTES``.
    """

    name: str
    table: str
    bounds: RowBounds
    size_bytes: int
    sha256: Sequence[str]


class ArchiveRun(msgspec.Struct, frozen=True):
    """The description of a run.

    It holds the events of the transactions from ``begin`` to before ``end``, all positions of each, and their
    other rows. ``previous`` is the link of the run before; ``merged`` that of the last run that was merged into
    this one, empty for a run of level 0.
    """

    metastore_id: UUID
    level: int
    begin: int
    end: int
    previous: str
    events: Sequence[ChainSpan]
    outcomes: Sequence[ChainSpan]
    files: Sequence[ArchivedFile] = ()
    merged: str = ""
    schema_version: int = _SCHEMA_VERSION

    @property
    def has_rows(self) -> bool:
        """Whether the run holds anything."""
        return bool(self.events or self.outcomes)


class ListedRun(msgspec.Struct, frozen=True):
    """A run in the manifest: its folder, the digest of its description, and its size without that."""

    name: str
    level: int
    sha256: str
    link: str
    end: int
    events: int
    size_bytes: int
    metastore_id: UUID


class ArchiveManifest(msgspec.Struct, frozen=True):
    """The runs of an archive in their order. The next archiver removes the folders ``merged_away``.

    From the end of the last run to before the transaction ``empty_before``, the log had no rows.
    """

    runs: tuple[ListedRun, ...] = ()
    merged_away: tuple[str, ...] = ()
    empty_before: int = 0
    schema_version: int = _SCHEMA_VERSION

    @property
    def end(self) -> int:
        """The transaction before which everything is archived."""
        return max(self.end_of_runs, self.empty_before)

    @property
    def end_of_runs(self) -> int:
        """The transaction with which the next run begins."""
        return self.runs[-1].end if self.runs else 0

    @property
    def metastore_id(self) -> UUID | None:
        """The identity of the metastore that wrote the last run."""
        return self.runs[-1].metastore_id if self.runs else None

    @property
    def link(self) -> str:
        """The link of the last run; empty without any."""
        return self.runs[-1].link if self.runs else ""


class ArchiveEnds(msgspec.Struct):
    """The last archived entry of each chain of events and of outcomes."""

    events: dict[UUID, ChainHead] = {}
    outcomes: dict[UUID, ChainHead] = {}

    def add(self, run: ArchiveRun) -> None:
        """Go on to the end of the next run."""
        for heads, spans in ((self.events, run.events), (self.outcomes, run.outcomes)):
            heads.update({span.chain_id: ChainHead(span.last, bytes.fromhex(span.hash)) for span in spans})

    def check(self, name: str, run: ArchiveRun) -> Iterator[ProofFinding]:
        """The findings where the next run does not begin at these ends."""
        for heads, spans in ((self.events, run.events), (self.outcomes, run.outcomes)):
            for span in spans:
                head = heads.get(span.chain_id, START)
                if (span.first, span.before) != (head.number + 1, head.hash.hex()):
                    expected = f"{head.number + 1}, after {head.hash.hex() or NOTHING}"
                    actual = f"{span.first}, after {span.before or NOTHING}"
                    yield damage(name, f"the first entry of the chain {span.chain_id}", expected, actual)


def checkpoint(number: int) -> int:
    """The last number up to this one whose entry has its hash beside it; 0 is before the first entry."""
    return number // CHECKPOINT_EVERY * CHECKPOINT_EVERY


def encode(document: ArchiveRun | ArchiveManifest) -> bytes:
    """A description or a manifest as it is stored."""
    return msgspec.json.encode(document)


def decode_run(content: bytes) -> ArchiveRun:
    """The description that was stored; raises ``ValueError``."""
    run = decoding.decode(content, ArchiveRun)
    _refuse_unknown(run.schema_version)
    return run


def decode_manifest(content: bytes) -> ArchiveManifest:
    """The manifest that was stored; raises ``ValueError``."""
    manifest = decoding.decode(content, ArchiveManifest)
    _refuse_unknown(manifest.schema_version)
    return manifest


def _refuse_unknown(version: int) -> None:
    if version != _SCHEMA_VERSION:
        raise ValueError(f"its format version {version} is not known to this release, only {_SCHEMA_VERSION}")


def sha256(content: bytes) -> str:
    """The digest of a file, in hex."""
    return hashlib.sha256(content).hexdigest()


def digests(content: bytes) -> list[str]:
    """The digests of the blocks of a file, in hex."""
    view = memoryview(content)
    blocks = range(0, len(content), BLOCK_BYTES)
    return [hashlib.sha256(view[begin : begin + BLOCK_BYTES]).hexdigest() for begin in blocks]


def list_run(name: str, run: ArchiveRun) -> ListedRun:
    """The entry of a run in the manifest."""
    digest = sha256(encode(run))
    return ListedRun(
        name=name,
        level=run.level,
        sha256=digest,
        link=run.merged or digest,
        end=run.end,
        events=sum(span.last - span.first + 1 for span in run.events),
        size_bytes=sum(file.size_bytes for file in run.files),
        metastore_id=run.metastore_id,
    )


def with_run(manifest: ArchiveManifest, listed: ListedRun, merged: Sequence[ListedRun] = ()) -> ArchiveManifest:
    """The manifest with one more run at its end, in the place of its last ones if they were ``merged``."""
    kept = manifest.runs[: len(manifest.runs) - len(merged)]
    away = (*manifest.merged_away, *(run.name for run in merged))
    empty_before = manifest.empty_before if merged else 0
    return msgspec.structs.replace(manifest, runs=(*kept, listed), merged_away=away, empty_before=empty_before)


def trusted_runs(manifest: ArchiveManifest, recorded: Sequence[str]) -> int:
    """The number of the first runs whose descriptions have the ``recorded`` digests, in this order."""
    pairs = zip(manifest.runs, recorded, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0].sha256 == pair[1], pairs))


def due_merge(manifest: ArchiveManifest) -> Sequence[ListedRun]:
    """The runs to merge now: the last ones, if enough of them have one level. Empty if there are none."""
    last = manifest.runs[-MERGED_AT_ONCE:]
    return last if len(last) == MERGED_AT_ONCE and len({run.level for run in last}) == 1 else ()


def merge(links: Sequence[str], runs: Sequence[ArchiveRun]) -> ArchiveRun:
    """The description of ``runs`` merged, without files; ``links`` are theirs."""
    first, last = runs[0], runs[-1]
    return ArchiveRun(
        metastore_id=last.metastore_id,
        level=last.level + 1,
        begin=first.begin,
        end=last.end,
        previous=first.previous,
        events=_joined([run.events for run in runs]),
        outcomes=_joined([run.outcomes for run in runs]),
        merged=links[-1],
    )


def _joined(spans_of_runs: Sequence[Sequence[ChainSpan]]) -> list[ChainSpan]:
    joined: dict[UUID, ChainSpan] = {}
    for spans in spans_of_runs:
        for span in spans:
            begun = joined.get(span.chain_id, span)
            joined[span.chain_id] = msgspec.structs.replace(span, first=begun.first, before=begun.before)
    return [joined[chain_id] for chain_id in sorted(joined)]


def check_order(manifest: ArchiveManifest, number: int, run: ArchiveRun) -> Iterator[ProofFinding]:
    """The findings where a run does not follow the run before it in the manifest."""
    name = manifest.runs[number].name
    before = manifest.runs[number - 1] if number else None
    link, end = (before.link, before.end) if before else ("", 0)
    if run.previous != link:
        yield damage(name, "the digest of the run before it", run.previous or NOTHING, link or NOTHING)
    if run.begin != end:
        yield damage(name, "the first transaction", f"{end}", f"{run.begin}")
    if list_run(name, run) != manifest.runs[number]:
        yield damage(name, "its description", "as the manifest lists it", "another")


def damage(name: str, what: str, expected: str, actual: str) -> ProofFinding:
    """A finding on a run or on the manifest."""
    return ProofFinding(Check.ARCHIVE, name, None, what, expected, actual)


class LogComparison(msgspec.Struct, frozen=True):
    """The ends of an archive beside the log of a database: the hashes there, None where there is no entry."""

    ends: ArchiveEnds
    events: Mapping[UUID, bytes | None]
    outcomes: Mapping[UUID, bytes | None]
    is_own: bool
    """Whether the database has, or had, the identity of the metastore that archived last."""

    def refusal(self) -> str | None:
        """Why the archive is not one of this database's log; None if it is."""
        pairs = [
            (f"{what} {head.number} of the log {chain_id}", head.hash, found.get(chain_id))
            for what, heads, found in (
                ("event", self.ends.events, self.events),
                ("outcome", self.ends.outcomes, self.outcomes),
            )
            for chain_id, head in heads.items()
        ]
        differing = [what for what, archived, found in pairs if found not in (None, archived)]
        missing = [what for what, _, found in pairs if found is None]
        if (differing or missing) and not self.is_own:
            return "the archive is of another metastore: the database never had its identity"
        if differing:
            return (
                f"the database has another {differing[0]} than the archive: it was restored from a backup and "
                "written since, or its log was changed (run verify); a new archive needs a new location"
            )
        if missing:
            return (
                f"the archive is newer than the database, which lacks {missing[0]} and "
                f"{len(missing) - 1} other ends: it was restored from an older backup. The archive has "
                "what the database lost"
            )
        return None
