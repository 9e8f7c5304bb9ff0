"""Reading ten years of archived instants, against PostgreSQL with the same rows.

The runs are written by the archive's writer, in the sizes that ``archive write`` gives them, from rows that no
commands made: their chains are not hashed, so that ``archive verify`` would refuse them.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, LiteralString

import msgspec
import psycopg

from benchmarks import reporting
from benchmarks.reporting import Row
from chronolake_metastore.archive import indexes, instant_index, instant_reading
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.rows import EVENT_ORDER, INSTANT, OUTCOME_KEY, RowWriter
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archived_instants import InstantChange
from chronolake_metastore.domain.archives import ArchiveRun, ChainSpan
from chronolake_metastore.domain.events import InstantCompleted, InstantRequested
from chronolake_metastore.store import archive
from chronolake_metastore.store.instants import Filter
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Direction, Operation, State, WriteSummary
from chronolake_storage import opening
from chronolake_storage.files import CONTENT_BYTES_MAX, Content, Files

INSTANTS: Final = int(os.environ.get("INSTANTS", "10000000"))
"""At one in 30 seconds, ten million are nine and a half years."""
BEGAN: Final = 1_480_000_000_000_000
EVERY: Final = 30_000_000
PRIME: Final = 1_000_003
DAY: Final = 86_400_000_000
HUDI_TIMES_SECONDS: Final = 3.4
HUDI_METADATA_SECONDS: Final = 162
"""Hudi's own figures for ten million instants (RFC-69): times only, and with metadata."""
KEYS: Final = int(os.environ.get("KEYS", "1000000"))
REFRESH_SECONDS_MAX: Final = 2
NAMED: Final = 10_000
ROUNDS: Final = 5
DAYS: Final = 20
LISTED: Final = 100
PAGE: Final = 200_000
PAGE_BYTES_MAX: Final = 64 << 20
TABLE: Final = uuid.UUID(int=1 << 100)
_FILL: Final[LiteralString] = """
    INSERT INTO chronolake.instant (
        table_id, requested_time, completion_time, action, operation, state, writer, lease_seconds, summary,
        extra_metadata, version, schema_version
    )
    SELECT
        %(table_id)s, chronolake.moment(requested),
        chronolake.moment(requested + 200000 + square %% 5000 * 1000), 'commit', 'upsert', 'completed', 'bench',
        60,
        jsonb_build_object(
            'files', 1, 'size_bytes', 1843217 + k, 'records', 50000 + k, 'inserts', 20, 'updates', 480,
            'deletes', 0
        ),
        '{}', 2 * k, 1
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS k
    CROSS JOIN LATERAL (
        SELECT k %% %(prime)s::bigint, (k %% %(prime)s::bigint) * (k %% %(prime)s::bigint) %% %(prime)s::bigint
    ) AS drawn (root, square)
    CROSS JOIN LATERAL (
        SELECT %(began)s::bigint + k * %(every)s::bigint + square * root %% %(prime)s::bigint %% 20000 * 1000
    ) AS begun (requested)
"""
_FIND: Final[LiteralString] = """
    SELECT ARRAY(
        SELECT (
            SELECT chronolake.micros(i.completion_time)
            FROM chronolake.instant i
            WHERE i.table_id = %(table_id)s AND i.requested_time = chronolake.moment(named.requested_time)
        )
        FROM unnest(%(requested_times)s::text::bigint[]) WITH ORDINALITY AS named (requested_time, nth)
        ORDER BY named.nth
    )
"""
_RANGE: Final[LiteralString] = """
    SELECT chronolake.micros(requested_time), chronolake.micros(completion_time), action, operation, state
    FROM chronolake.instant
    WHERE table_id = %s AND requested_time >= chronolake.moment(%s) AND requested_time < chronolake.moment(%s)
    ORDER BY requested_time
"""
_NEWEST: Final[LiteralString] = """
    SELECT * FROM chronolake.instant
    WHERE table_id = %s AND requested_time <= chronolake.moment(%s)
    ORDER BY requested_time DESC LIMIT %s
"""
_TIMES: Final[LiteralString] = """
    COPY (
        SELECT requested_time, completion_time, action, operation, state
        FROM chronolake.instant ORDER BY table_id, requested_time
    ) TO STDOUT (FORMAT binary)
"""
_ALL: Final[LiteralString] = """
    COPY (SELECT * FROM chronolake.instant ORDER BY table_id, requested_time) TO STDOUT (FORMAT binary)
"""


def measure(dsn: str) -> Iterator[Row]:
    """Write both, and read both, each in turn."""
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        began = time.monotonic()
        # In another process, whose memory is not that of the reads.
        writing = multiprocessing.get_context("spawn").Process(target=write, args=(folder, INSTANTS))
        writing.start()
        fill(dsn, INSTANTS)
        writing.join()
        assert writing.exitcode == 0
        yield Row(f"writing {INSTANTS:,} instants to both", f"{time.monotonic() - began:,.0f} s")
        yield from measure_reads(dsn, folder, INSTANTS)


def measure_keys(keys: int) -> Iterator[Row]:
    """The first refresh of a reader, which a server needs before it decides a command."""
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(write_keys, (folder, keys))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, megabytes = pool.apply(_refresh, (folder,))
        name = f"a server's first refresh with {keys:,} archived keys ({megabytes:,.0f} MB)"
        yield reporting.at_most(name, seconds, REFRESH_SECONDS_MAX, "s")


def _refresh(folder: str) -> tuple[float, float]:
    before = _peak_megabytes()
    began = time.perf_counter()
    reader = ArchiveReader(ArchiveStorage(opening.open_files(folder)))
    reader.refresh()
    assert not reader.may_have_outcome("none")
    return time.perf_counter() - began, _peak_megabytes() - before


def measure_reads(dsn: str, folder: str, instants: int) -> Iterator[Row]:
    """Each read of the archive, and of PostgreSQL."""
    files = opening.open_files(folder)
    storage = ArchiveStorage(files)
    runs = [storage.run(listed) for listed in storage.manifest().runs]
    size = sum(file.size_bytes for run in runs for file in run.files if file.table == INSTANT)
    yield Row("index of instants", f"{size / instants:,.1f} bytes/instant in {len(runs)} runs")
    before = _peak_megabytes()
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield from _opening(files, instants)
        yield from _named(connection, storage, instants)
        yield from _days(connection, storage, instants)
        yield from _documents(connection, storage, instants)
        yield from _whole(connection, storage, instants)
    yield Row("memory of all reads of the archive, at its peak", f"{_peak_megabytes() - before:,.0f} MB")


def _opening(files: Files, instants: int) -> Iterator[Row]:
    counting = _CountingFiles(files)
    storage = ArchiveStorage(counting)
    began = time.perf_counter()
    for listed in storage.manifest().runs:
        storage.run(listed)
    yield Row("opening: the manifest and the descriptions of its runs", _cost(began, counting))
    descriptions = counting.bytes
    counting = _CountingFiles(files)
    began = time.perf_counter()
    [completed] = ArchiveReader(ArchiveStorage(counting)).completion_times(TABLE, [_requested(instants)])
    assert completed == _completed(instants)
    yield Row("the last instant, by a new reader", _cost(began, counting))
    megabytes = (counting.bytes - descriptions) / (1 << 20)
    yield reporting.at_most("the same, beyond the manifest and the descriptions", megabytes, 4, "MiB")


def _named(connection: psycopg.Connection[Any], storage: ArchiveStorage, instants: int) -> Iterator[Row]:
    draws = random.Random(0)
    asked = [[_requested(draws.randint(1, instants)) for _ in range(NAMED)] for _ in range(ROUNDS + 1)]
    reader = ArchiveReader(storage)

    def in_archive(named: Sequence[Micros]) -> None:
        assert None not in reader.completion_times(TABLE, named)

    def in_database(named: Sequence[Micros]) -> None:
        ordered = f"{{{','.join(map(str, sorted(named)))}}}"
        [[times]] = connection.execute(_FIND, {"table_id": TABLE, "requested_times": ordered}).fetchall()
        assert None not in times

    name = f"completion times of {NAMED:,} random instants"
    first = _milliseconds(lambda: in_archive(asked[0])), _milliseconds(lambda: in_database(asked[0]))
    yield _against(f"{name}: the first read", *first, is_target=False)
    yield _against(name, *_medians(asked[1:], in_archive, in_database))


def _days(connection: psycopg.Connection[Any], storage: ArchiveStorage, instants: int) -> Iterator[Row]:
    draws = random.Random(1)
    days = max(instants * EVERY // DAY, 1)
    begins = [Micros(BEGAN + draws.randrange(days) * DAY) for _ in range(DAYS)]
    reader = ArchiveReader(storage)
    reader.completion_times(TABLE, [begins[0]])

    def in_archive(begin: Micros) -> None:
        assert _timeline(reader, range(begin, begin + DAY), instants).num_rows

    def in_database(begin: Micros) -> None:
        assert connection.execute(_RANGE, (TABLE, begin, begin + DAY)).fetchall()

    yield _against("a range of a day", *_medians(begins, in_archive, in_database))


def _documents(connection: psycopg.Connection[Any], storage: ArchiveStorage, instants: int) -> Iterator[Row]:
    """Whole instants, as a list of the timeline has them."""
    draws = random.Random(2)
    ends = [_requested(draws.randint(LISTED, instants)) for _ in range(ROUNDS + 1)]
    reader = ArchiveReader(storage)

    def in_archive(until: Micros) -> None:
        wanted = Filter(requested_to=until, direction=Direction.DESCENDING)
        assert len(reader.page_of_instants(TABLE, wanted, None, 0, LISTED, PAGE_BYTES_MAX).instants) == LISTED

    def in_database(until: Micros) -> None:
        assert len(connection.execute(_NEWEST, (TABLE, until, LISTED)).fetchall()) == LISTED

    name = f"{LISTED} whole instants before a random time"
    first = _milliseconds(lambda: in_archive(ends[0])), _milliseconds(lambda: in_database(ends[0]))
    yield _against(f"{name}: the first read", *first, is_target=False)
    yield _against(name, *_medians(ends[1:], in_archive, in_database), is_target=False)


def _whole(connection: psycopg.Connection[Any], storage: ArchiveStorage, instants: int) -> Iterator[Row]:
    def times() -> None:
        assert sum(map(len, _pages(lambda all_: _timeline(reader, all_, PAGE)))) == instants

    def with_metadata() -> None:
        def page(requested: range) -> Any:
            of = TABLE, requested, PAGE, PAGE_BYTES_MAX
            return reader.of_runs(lambda runs: instant_reading.with_payloads(runs, *of))

        assert sum(map(len, _pages(page))) == instants

    for name, read, query, seconds in (
        ("the whole timeline, times only", times, _TIMES, HUDI_TIMES_SECONDS),
        ("the whole timeline, with metadata", with_metadata, _ALL, HUDI_METADATA_SECONDS),
    ):
        reader = ArchiveReader(storage)
        own, plain = _milliseconds(read), _milliseconds(partial(_copy, connection, query))
        yield _against(name, own, plain)
        yield reporting.at_most(f"{name}, against Hudi's figure", own / 1_000, seconds, "s")


def _timeline(reader: ArchiveReader, requested: range, limit: int) -> Any:
    return reader.of_runs(lambda runs: instant_reading.timeline(runs, TABLE, requested, limit))


def _pages(read: Callable[[range], Any]) -> Iterator[Any]:
    requested = instant_reading.ALL
    while (page := read(requested)).num_rows:
        yield page
        requested = range(page.column(0)[-1].as_py() + 1, requested.stop)


def _copy(connection: psycopg.Connection[Any], query: LiteralString) -> None:
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for _ in copy:
            pass


def _milliseconds(read: Callable[[], None]) -> float:
    began = time.perf_counter()
    read()
    return (time.perf_counter() - began) * 1_000


def _medians(asked: Sequence[Any], *reads: Callable[[Any], None]) -> Iterator[float]:
    taken = [[_milliseconds(partial(read, of)) for read in reads] for of in asked]
    return map(statistics.median, zip(*taken, strict=True))


def _against(name: str, own: float, plain: float, *, is_target: bool = True) -> Row:
    figure = f"{own:,.1f} of PostgreSQL's {plain:,.1f} ms = {own / plain:.2f} x"
    return Row(name, figure, "< 1 x" if is_target else "", own < plain if is_target else None)


def _cost(began: float, files: _CountingFiles) -> str:
    milliseconds = (time.perf_counter() - began) * 1_000
    return f"{milliseconds:,.1f} ms, {files.requests} requests, {files.bytes:,} bytes"


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


class _CountingFiles:
    """Files that count what is read."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.requests = 0
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        content = self._files.read(path, bytes_max)
        self._count(content.body if content else b"")
        return content

    def read_range(self, path: str, begin: int, end: int) -> bytes | None:
        return self._count(self._files.read_range(path, begin, end) or b"")

    def _count(self, body: bytes) -> bytes:
        self.requests += 1
        self.bytes += len(body)
        return body


def _requested(number: int) -> Micros:
    """The requested time of an instant: about one in 30 seconds, at times that do not compress."""
    root = number % PRIME
    return Micros(BEGAN + number * EVERY + root * root % PRIME * root % PRIME % 20_000 * 1_000)


def _completed(number: int) -> Micros:
    root = number % PRIME
    return Micros(_requested(number) + 200_000 + root * root % PRIME % 5_000 * 1_000)


def fill(dsn: str, instants: int) -> None:
    """The instants as rows of PostgreSQL, as if long there."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for first in range(1, instants + 1, 1_000_000):
            last = min(first + 1_000_000 - 1, instants)
            named = {"table_id": TABLE, "first": first, "last": last}
            connection.execute(_FILL, named | {"began": BEGAN, "every": EVERY, "prime": PRIME})
        connection.execute("VACUUM (ANALYZE, FREEZE) chronolake.instant")
        connection.execute("CHECKPOINT")


def write(folder: str, instants: int) -> None:
    """The instants as runs of an archive."""
    storage = ArchiveStorage(opening.open_files(folder))
    first = 1
    while first <= instants:
        last = first + _of_next_run(instants - first + 1) - 1
        _write_run(storage, first, last)
        first = last + 1


def _of_next_run(left: int) -> int:
    """The instants of the next run: as many as runs that are merged ten to one have, the largest first."""
    of_run = archive.EVENTS_MAX // 2
    while of_run * archives.MERGED_AT_ONCE <= left:
        of_run *= archives.MERGED_AT_ONCE
    return min(of_run, left)


def _write_run(storage: ArchiveStorage, first: int, last: int) -> None:
    stored = storage.stored_manifest()
    manifest = stored.manifest
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        spool = Path(folder)
        writers = {table: RowWriter(spool, table) for table in ("event", EVENT_ORDER, INSTANT)}
        for number in range(first, last + 1):
            for event in _events(number):
                version = event[1]
                writers["event"].add(event)
                writers[EVENT_ORDER].add((version, 1, version - 2 * first + 1))
            writers[INSTANT].add(instant_index.entry(TABLE, _change(number)))
        for writer in writers.values():
            writer.close()
        span = ChainSpan(TABLE, 2 * first - 1, 2 * last, "00" * 32 if first > 1 else "", "00" * 32)
        run = ArchiveRun(TABLE, 0, manifest.end, 2 * last + 1, manifest.link, [span], [])
        listed, _ = storage.add(run, spool, {table: writer.files for table, writer in writers.items()})
        assert storage.replace_manifest(stored, archives.with_run(manifest, listed))


def _events(number: int) -> Iterator[tuple[Any, ...]]:
    requested = _requested(number)
    summary = WriteSummary(
        files=1, size_bytes=1_843_217 + number, records=50_000 + number, inserts=20, updates=480, deletes=0
    )
    request = InstantRequested(
        action=Action.COMMIT,
        operation=Operation.UPSERT,
        state=State.INFLIGHT,
        writer="bench",
        lease_seconds=60,
        lease_expires_at=Micros(requested + 60_000_000),
        schema_version=1,
    )
    done = InstantCompleted(summary=summary, write_stats_digest=os.urandom(32).hex(), schema_version=1)
    for version, time_, payload in (
        (2 * number - 1, requested, request),
        (2 * number, _completed(number), done),
    ):
        digest = os.urandom(32) if version % archives.CHECKPOINT_EVERY == 0 else None
        text = msgspec.json.encode(payload).decode()
        name = type(payload).__name__
        yield TABLE, version, version, 1, name, requested, time_, "bench", None, version - 1, text, digest


def _change(number: int) -> InstantChange:
    return InstantChange(
        requested_time=_requested(number),
        first_version=2 * number - 1,
        version=2 * number,
        begun_as=Action.COMMIT,
        operation=Operation.UPSERT,
        writer="bench",
        state=State.COMPLETED,
        completed_at=_completed(number),
    )


def write_keys(folder: str, keys: int) -> None:
    """An archive with one run of outcomes under random keys."""
    storage = ArchiveStorage(opening.open_files(folder))
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as spool:
        outcomes, index = (RowWriter(Path(spool), table) for table in ("outcome", OUTCOME_KEY))
        entries = []
        for number in range(1, keys + 1):
            row = _outcome(number)
            outcomes.add(row)
            entries.append(indexes.entry(OUTCOME_KEY, row, number - 1))
        for entry in sorted(entries):
            index.add(entry)
        for writer in (outcomes, index):
            writer.close()
        run = ArchiveRun(TABLE, 0, 0, 1, "", [], [ChainSpan(TABLE, 1, keys, "", "00" * 32)])
        files = {"outcome": outcomes.files, OUTCOME_KEY: index.files}
        listed, _ = storage.add(run, Path(spool), files)
        stored = storage.stored_manifest()
        assert storage.replace_manifest(stored, archives.with_run(stored.manifest, listed))


def _outcome(number: int) -> tuple[Any, ...]:
    request_id, digest = str(uuid.uuid4()), os.urandom(32)
    of_command = (request_id, digest[:16], TABLE, number, None, b"{}", "v1", digest)
    return TABLE, number, *of_command, _requested(number), "BeginInstant", "bench", None, None
