"""The main job: files in, commits out. What ``chronolake ingest`` runs; a program may run it too."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf
from pyspark.sql.types import StructType

import chronolake
from chronolake.errors import TableExists, TableNotFound
from chronolake_model.names import split_table_name
from chronolake_model.tables import Table
from chronolake_model.vocabulary import State, TableType
from chronolake_spark import errors, failures, schema, sources, tables

DIGEST = "ingest.digest"
"""In a commit's extra metadata: the fingerprints of its files, by which a later run knows each of them.

Separated by commas; what does not fit into one text goes on under ``ingest.digest.1`` and so on.
"""
SOURCE = "ingest.source"
"""In a commit's extra metadata: the names of the files, or how many they were."""

_DERIVED = re.compile(r"(?P<name>\w+)\s*=(?!=)(?P<expression>.+)", re.DOTALL)
_DELETES = ("d", "delete", "deleted")
_LOOK_ROWS = 10_000
"""So much of the first file is read before a table is made for it."""
_DIGESTS_PER_TEXT = 200


@dataclass(frozen=True, slots=True)
class Request:
    """What to ingest, and how. ``partition`` holds columns, or ``name=SQL expression``."""

    table: str
    source: str
    key: tuple[str, ...]
    base_path: str
    ordering: str | None = None
    partition: tuple[str, ...] = ()
    op_column: str | None = None
    one_commit_per_file: bool = False
    buckets: int = 4
    table_type: TableType = TableType.COPY_ON_WRITE


class Batch(msgspec.Struct, frozen=True):
    """Files that become one commit."""

    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files"


class Committed(msgspec.Struct, frozen=True):
    """A commit that holds a batch; ``seconds`` is what it took, reading included."""

    source: str
    requested_time: str
    completion_time: str
    inserts: int
    updates: int
    deletes: int
    seconds: float


class Ingestion:
    """One ingest, step by step: the files are found at once, ``open_table`` makes the table, ``run`` commits.

    Raises ``SourceUnreadable``, and ``ValueError`` when the table's name is none.
    """

    def __init__(self, client: chronolake.Client, spark: SparkSession, request: Request) -> None:
        self.namespace, _ = split_table_name(request.table)
        self.request = request
        self.source = sources.find(request.source)
        self._client = client
        self._spark = spark
        self._struct: StructType | None = None

    @property
    def batches(self) -> list[Batch]:
        """The commits to be, in order."""
        files = self.source.files
        return [Batch((file,)) for file in files] if self.request.one_commit_per_file else [Batch(files)]

    def open_table(self) -> tuple[tables.SparkTable, bool]:
        """The table, and whether it was made now.

        Raises ``TableMismatch`` when there is one with another key, ordering field, partitions or type.
        """
        try:
            _check_same(self._client.table(self.request.table).definition, self.request)
            created = False
        except TableNotFound:
            created = self._create()
        return tables.table(self._spark, self.request.table, client=self._client), created

    def run(self, table: tables.SparkTable) -> Iterator[tuple[Batch, Committed | None]]:
        """Commit batch by batch, without the files that the table has; None stands for a batch of only such.

        A file is known by its content: one that was ingested before is passed over in whatever batch it
        stands, for to apply it again would bring back what came later and corrected it.
        """
        known = _known_digests(table.metastore)
        for batch in self.batches:
            new = {}
            for file in batch.files:
                if (digest := sources.digest(file)) not in known:
                    known.add(digest)
                    new[file] = digest
            if not new:
                yield batch, None
                continue
            rest = Batch(tuple(new))
            yield rest, self._commit(table, rest, list(new.values()))

    def _commit(self, table: tables.SparkTable, batch: Batch, digests: Sequence[str]) -> Committed:
        start = time.monotonic()
        with _readable(batch.name):
            instant = table.upsert(
                self._frame(batch.files),
                delete_when=self._delete_condition(),
                extra_metadata={SOURCE: batch.name, **_digest_texts(digests)},
            )
        summary = instant.summary or chronolake.WriteSummary()
        return Committed(
            source=batch.name,
            requested_time=instant.requested_time,
            completion_time=instant.completion_time or "",
            inserts=summary.inserts,
            updates=summary.updates,
            deletes=summary.deletes,
            seconds=time.monotonic() - start,
        )

    def _create(self) -> bool:
        """Make the table; whether it was this ingest that made it, and not another at the same time."""
        request = self.request
        if not request.key:
            raise errors.TableMismatch(
                f"there is no table {request.table} yet; to make it, say which columns are its record key: "
                "--key id, or --key date,country"
            )
        with _readable(request.source):
            struct = self._frame(self.source.files).schema
        _check_columns(struct, request)
        first = self.source.files[:1]
        with _readable(first[0].name):
            # A table that is made for files which cannot be read stands in the way of the next try.
            self._frame(first).limit(_LOOK_ROWS).write.format("noop").mode("overwrite").save()
        self._client.create_namespace(self.namespace, if_not_exists=True)
        try:
            tables.create_table(
                self._client,
                request.table,
                StructType([field for field in struct if field.name != request.op_column]),
                base_path=request.base_path,
                record_key_fields=request.key,
                partition_fields=_partition_fields(request),
                ordering_field=request.ordering,
                buckets=request.buckets,
                type=request.table_type,
            )
        except TableExists:
            _check_same(self._client.table(request.table).definition, request)
            return False
        return True

    def _frame(self, files: Sequence[Path]) -> DataFrame:
        """The rows of ``files`` with the columns that the partitions derive from them."""
        if self._struct is None:
            self._struct = self._schema()
        frame = sources.read(self._spark, self.source, files, self._struct)
        for text in self.request.partition:
            if derived := _DERIVED.fullmatch(text):
                if derived["name"].lower() in {name.lower() for name in frame.columns}:
                    raise errors.SchemaMismatch(
                        f"--partition {text} would replace the column {derived['name']}; use another name",
                        {"column": derived["name"]},
                    )
                frame = frame.withColumn(derived["name"], sf.expr(derived["expression"]))
        return frame

    def _schema(self) -> StructType:
        """The schema of the files. When one cannot be read, says which: not everything that Spark says does."""
        try:
            return sources.schema_of(self._spark, self.source)
        except failures.FAILURES:
            for file in self.source.files:
                with _readable(str(file)):
                    sources.schema_of(self._spark, replace(self.source, files=(file,)))
            raise

    def _delete_condition(self) -> Column | None:
        if self.request.op_column is None:
            return None
        return sf.lower(sf.trim(schema.quoted(self.request.op_column))).isin(*_DELETES)


def _digest_texts(digests: Sequence[str]) -> dict[str, str]:
    starts = range(0, len(digests), _DIGESTS_PER_TEXT)
    return {
        DIGEST if number == 0 else f"{DIGEST}.{number}": ",".join(digests[start : start + _DIGESTS_PER_TEXT])
        for number, start in enumerate(starts)
    }


def _known_digests(table: chronolake.Table) -> set[str]:
    """The fingerprints of the files that the table's commits hold."""
    return {
        digest
        for instant in table.instants(state=State.COMPLETED)
        for name, text in instant.extra_metadata.items()
        if name == DIGEST or name.startswith(f"{DIGEST}.")
        for digest in text.split(",")
    }


def _partition_fields(request: Request) -> list[str]:
    matches = [(text, _DERIVED.fullmatch(text)) for text in request.partition]
    return [match["name"] if match else text for text, match in matches]


def _check_columns(struct: StructType, request: Request) -> None:
    optional = [name for name in (request.ordering, request.op_column) if name is not None]
    wanted = [*request.key, *_partition_fields(request), *optional]
    unknown = [name for name in wanted if name not in struct.names]
    if unknown:
        raise errors.SchemaMismatch(
            f"the files of {request.source} have no column called {', '.join(unknown)}; "
            f"they have {', '.join(struct.names)}",
            {"missing": unknown},
        )


def _check_same(table: Table, request: Request) -> None:
    """Refuse a request that takes the table for another than it is; what it leaves out, it takes as it is."""
    asked_and_found = {
        "the record key": (list(request.key), table.record_key_fields),
        "the ordering field": ([request.ordering] if request.ordering else [], [table.ordering_field]),
        "the partitions": (_partition_fields(request), table.partition_fields),
    }
    for what, (asked, found) in asked_and_found.items():
        if asked and asked != found:
            raise errors.TableMismatch(
                f"{table.name} exists, and {what} is {found}, not {asked}; leave the option out to take the "
                "table as it is, or choose another name with --table"
            )


@contextlib.contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn what Spark says of bad files or expressions into an error that names them."""
    try:
        yield
    except (*failures.FAILURES, errors.SparkJobFailed) as exc:
        raise errors.SourceUnreadable(f"{what} cannot be ingested: {failures.said_in(exc)}") from exc
