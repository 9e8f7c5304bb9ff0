"""``chronolake ingest --follow``: files that arrive become commits, in a query of Structured Streaming.

A batch of the query has the names of files (``arrivals``). They are loaded as an ingest loads them, so a commit
records what it has loaded: a batch that comes again after a crash skips the files that a commit has.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import chronolake
from chronolake.errors import TableNotFound
from chronolake.ingest import arrivals, formats, loaded_files
from chronolake.ingest.arrivals import Arrival, FollowOptions
from chronolake.ingest.formats import Format
from chronolake.ingest.job import Committed, IngestJob
from chronolake.ingest.request import Batch, IngestRequest
from chronolake.ingest.source_files import SourceFiles
from chronolake_model import base_paths
from chronolake_model.tables import Table
from chronolake_spark import errors
from chronolake_spark.driver import spark_failures, spark_internals
from chronolake_spark.ingest import arrivals_source
from chronolake_spark.ingest.spark_engine import SparkEngine

_POLL_SECONDS = 0.5
_DIGITS = 12
_LOGGER = "org.apache.spark.sql.execution.streaming"


def folder_of(table: Table, source: str, following: FollowOptions) -> Path:
    """The folder of the query's state: beside the base path, not below it, where other readers look.

    Its name has the id of the table and a digest of the source: a table that is made again, and another source,
    begin anew. Raises ``InvalidOption`` for a table in object storage without ``checkpoint``.
    """
    digest = hashlib.sha256(arrivals.absolute(source).encode()).hexdigest()
    name = f"{table.table_id}-{digest[:_DIGITS]}"
    if following.checkpoint is not None:
        return following.checkpoint.absolute() / name
    location = base_paths.parse(table.base_path)
    if location.kind is not base_paths.Kind.FILE:
        raise errors.InvalidOption(
            f"{table.name} is at {table.base_path}, where Spark may have no file system for its checkpoint: "
            "name a local folder that stays, with --checkpoint"
        )
    return Path(f"{location.path.rstrip('/')}.ingest") / name


def create(
    client: chronolake.Client,
    spark: SparkSession,
    request: IngestRequest,
    following: FollowOptions,
    report: Callable[[Batch, Committed | None], None],
    check: Callable[[], None],
    wait: Callable[[], None],
) -> None:
    """Load the first files into a new table; ``wait`` is called until there are any.

    The query finds them again, and skips the files that the table has. Raises as an ingest does.
    """
    while not (arrived := sorted(arrivals.present(request.source, time.time()))):
        check()
        wait()
    with tempfile.TemporaryDirectory(prefix="chronolake-") as copies:
        files = [local for file in arrived if (local := arrivals.fetched(file, Path(copies))) is not None]
        for source in _by_format(files):
            files_max = following.max_files
            engine = SparkEngine(spark, client)
            job = IngestJob(client, engine, request, check, source=source, files_max=files_max)
            for batch, committed in job.run(job.prepare()):
                report(batch, committed)


class FollowJob:
    """Follows a source into a table that exists. ``report`` is called after each batch of files.

    ``gone`` is called for a file that was moved away, or written again, before it was loaded.
    """

    def __init__(
        self,
        client: chronolake.Client,
        spark: SparkSession,
        request: IngestRequest,
        following: FollowOptions,
        report: Callable[[Batch, Committed | None], None],
        gone: Callable[[str], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._spark = spark
        self._request = request
        self._following = following
        self._report = report
        self._gone = gone
        self._check = check
        self._table = client.table(request.table).definition
        self._loaded = loaded_files.FollowedFiles()
        self._failure: BaseException | None = None
        self.folder = folder_of(self._table, request.source, following)

    def run(self) -> None:
        """Follow until ``check`` raises. Raises what an ingest raises, ``SourceBusy`` for a second follower."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(), self._unlogged():
            query = self._started()
            try:
                while self._failure is None and not query.awaitTermination(_POLL_SECONDS):
                    self._check()
            except StreamingQueryException as exc:
                if self._failure is None:
                    self._check()
                    raise errors.SparkJobFailed(spark_failures.message_of(exc)) from exc
            finally:
                query.stop()
            self._check()
            if self._failure is not None:
                raise self._failure

    def _started(self) -> StreamingQuery:
        self._spark.dataSource.register(arrivals_source.ArrivalsDataSource)
        names = (
            self._spark.readStream.format(arrivals_source.FORMAT)
            .option("source", arrivals.absolute(self._request.source))
            .option("log", str(self.folder))
            .option("max_files", str(self._following.max_files))
            .load()
        )
        return (
            names.writeStream.queryName(f"ingest {self._request.table}")
            .option("checkpointLocation", str(self.folder / "spark"))
            .trigger(processingTime=f"{round(self._following.interval_seconds * 1_000)} milliseconds")
            .foreachBatch(self._load)
            .start()
        )

    def _load(self, names: DataFrame, _number: int) -> None:
        try:
            files = [Arrival(*row) for row in names.collect()]
            self._refuse_another_table()
            with self._fetched(files) as local:
                for source in _by_format(local):
                    self._ingest(source)
        except BaseException as failure:
            self._failure = failure
            # Spark keeps no more than a text of it, and a regular expression of Spark fails on a long trace.
            raise RuntimeError("the files of the batch were not loaded") from None

    def _ingest(self, source: SourceFiles) -> None:
        engine = SparkEngine(self._spark, self._client)
        job = IngestJob(self._client, engine, self._request, self._check, source=source, loaded=self._loaded.of)
        for batch, committed in job.run(job.prepare()):
            self._report(batch, committed)

    @contextlib.contextmanager
    def _fetched(self, files: Iterable[Arrival]) -> Iterator[list[Path]]:
        """Local files with the content of those that arrived; copies are deleted at the end."""
        copies = self.folder / "copies"
        try:
            fetched = [(file, arrivals.fetched(file, copies)) for file in files]
            for file, local in fetched:
                if local is None:
                    self._gone(file.path)
            yield [local for _, local in fetched if local is not None]
        finally:
            shutil.rmtree(copies, ignore_errors=True)

    def _refuse_another_table(self) -> None:
        """Raise ``TableMismatch`` if the table was dropped: files must not go into one of the same name."""
        try:
            present: str | None = self._client.table(self._request.table).definition.table_id
        except TableNotFound:
            present = None
        if present != self._table.table_id:
            raise errors.TableMismatch(
                f"the table {self._request.table} was dropped while files were loaded into it; run the command "
                "again to load all files into a new one"
            )

    @contextlib.contextmanager
    def _unlogged(self) -> Iterator[None]:
        """Let Spark and py4j log no failures of the query: ``run`` raises them."""
        python = logging.getLogger("py4j")
        before = python.level
        python.setLevel(logging.CRITICAL + 1)
        try:
            with spark_internals.unlogged(self._spark, _LOGGER):
                yield
        finally:
            python.setLevel(before)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.InvalidOption(
                    f"another ingest --follow loads {self._request.source} into {self._request.table} already "
                    f"(its state is in {self.folder}): stop it first"
                ) from None
            yield


def _by_format(files: Iterable[Path]) -> list[SourceFiles]:
    """The files as sources of one format each."""
    groups: dict[Format, list[Path]] = {}
    for file in sorted(files):
        format_ = formats.format_of(file)
        assert format_ is not None, "the source lists data files only"
        groups.setdefault(format_, []).append(file)
    return [SourceFiles(format_, tuple(of_format)) for format_, of_format in groups.items()]
