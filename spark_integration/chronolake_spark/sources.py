"""Files to ingest: which they are, what they hold, and how Spark reads them."""

from __future__ import annotations

import contextlib
import enum
import functools
import glob
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from chronolake_spark import errors, headers
from chronolake_spark.schema import quoted

_PATTERN = re.compile(r"[\\{}\[\]*?]")
_NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


class Format(enum.StrEnum):
    """What a file's name says that it holds."""

    PARQUET = "Parquet"
    CSV = "CSV"
    JSON = "JSON lines"


_SUFFIXES = {
    Format.PARQUET: (".parquet", ".pq"),
    Format.CSV: (".csv", ".csv.gz"),
    Format.JSON: (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
}
_OPTIONS = {
    Format.PARQUET: {"mergeSchema": "true"},
    # FAILFAST: a line that is not what the others are stops the job; it is not stored as nulls.
    Format.CSV: {
        "header": "true",
        "inferSchema": "true",
        "enforceSchema": "false",
        "multiLine": "true",
        "escape": '"',
        "mode": "FAILFAST",
    },
    Format.JSON: {"mode": "FAILFAST"},
}
_READER = {Format.PARQUET: "parquet", Format.CSV: "csv", Format.JSON: "json"}


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one format, in the order of their names. ``ignored`` counts others beside them in a folder."""

    format: Format
    files: tuple[Path, ...]
    ignored: int = 0

    @property
    def summary(self) -> str:
        """What it is, for people."""
        ignored = f" (left out: {self.ignored} of other formats)" if self.ignored else ""
        return f"{len(self.files)} {self.format} file{'s' if len(self.files) > 1 else ''}{ignored}"


def find(where: str) -> Source:
    """The files that a path, a folder or a glob pattern names.

    Of a folder it takes the format that most of its files have. Raises ``SourceUnreadable`` when there are
    none, or a pattern names files of several formats.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        return _most_common(path)
    found = [path] if path.is_file() else [Path(name) for name in glob.glob(str(path), recursive=True)]
    files = sorted(file.resolve() for file in found if file.is_file())
    formats = {_format_of(file) for file in files}
    if not files:
        raise errors.SourceUnreadable(
            f"there is no file, no folder and nothing that matches {where!r} (looked from {Path.cwd()})"
        )
    if len(formats) > 1 or None in formats:
        raise errors.SourceUnreadable(f"{where!r} names {_what(files)}; name files of one format: {_KNOWN}")
    return Source(formats.pop() or Format.PARQUET, tuple(files))


def digest(path: Path) -> str:
    """A fingerprint of what the file holds, whatever it is called."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def schema_of(spark: SparkSession, source: Source) -> StructType:
    """The schema that all files of ``source`` together have.

    Raises ``SourceUnreadable``, and what Spark raises.
    """
    with _under_plain_names(source.files) as files:
        groups = headers.grouped(files).values() if source.format is Format.CSV else [files]
        structs = [_read(spark, source, group, None).schema for group in groups]
    return StructType([_common([struct[name] for struct in structs]) for name in structs[0].names])


def read(spark: SparkSession, source: Source, files: Sequence[Path], struct: StructType) -> DataFrame:
    """The rows of ``files``, of the schema ``struct``; columns go by their names, also in CSV files.

    Raises ``SourceUnreadable``, and what Spark raises.
    """
    if source.format is not Format.CSV:
        return _read(spark, source, files, struct)
    by_name = {field.name: field for field in struct}
    frames = []
    for header, group in headers.grouped(files, like=struct.names).items():
        in_its_order = StructType([by_name[name] for name in header])
        frames.append(_read(spark, source, group, in_its_order).select(*map(quoted, struct.names)))
    return functools.reduce(DataFrame.unionByName, frames)


def _common(fields: Sequence[StructField]) -> StructField:
    """One column of files that were looked at apart: of a type that holds what each of them has."""
    types = {field.dataType for field in fields}
    if len(types) == 1:
        return fields[0]
    if all(isinstance(type_, IntegerType | LongType) for type_ in types):
        return StructField(fields[0].name, LongType())
    numeric = all(isinstance(type_, NumericType) for type_ in types)
    return StructField(fields[0].name, DoubleType() if numeric else StringType())


def _read(spark: SparkSession, source: Source, files: Sequence[Path], struct: StructType | None) -> DataFrame:
    reader = spark.read.options(**_OPTIONS[source.format])
    nanos = _nanosecond_columns(files) if source.format is Format.PARQUET else {}
    if nanos:
        # Spark knows no nanoseconds: pandas and pyarrow write them unless told otherwise.
        spark.conf.set(_NANOS_AS_LONG, "true")
    elif struct is not None:
        reader = reader.schema(struct)
    frame = reader.format(_READER[source.format]).load([_address(file) for file in files])
    for name, type_ in nanos.items():
        micros = sf.timestamp_micros(sf.floor(sf.col(quoted(name)) / sf.lit(1000)))
        frame = frame.withColumn(name, micros.cast(type_))
    return frame


@contextlib.contextmanager
def _under_plain_names(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The same files, those with odd names under others: Spark, when it infers a schema, looks for patterns
    in paths that it has resolved already, and there no escape helps."""
    with tempfile.TemporaryDirectory(prefix="chronolake-") as folder:
        plain = []
        for number, file in enumerate(files):
            link = Path(folder, str(number), _PATTERN.sub("_", file.name))
            if _PATTERN.search(str(file)):
                link.parent.mkdir()
                link.symlink_to(file)
                plain.append(link)
            else:
                plain.append(file)
        yield plain


def _address(file: Path) -> str:
    """The file as Spark takes it, which looks for patterns in every path."""
    return "file://" + _PATTERN.sub(r"\\\g<0>", str(file))


def _most_common(folder: Path) -> Source:
    visible = [file for file in folder.resolve().iterdir() if file.is_file() and file.name[0] not in "._"]
    files = [(file, format_) for file in visible if (format_ := _format_of(file)) is not None]
    counts = Counter(format_ for _, format_ in files)
    if not counts:
        raise errors.SourceUnreadable(
            f"the folder {folder} holds no {_KNOWN} files; for files in folders below it give a pattern, "
            f"like '{folder}/**/*.parquet'"
        )
    wanted = max(Format, key=lambda format_: counts[format_])
    chosen = tuple(sorted(file for file, format_ in files if format_ is wanted))
    return Source(wanted, chosen, ignored=len(files) - len(chosen))


def _format_of(file: Path) -> Format | None:
    for format_, suffixes in _SUFFIXES.items():
        if file.name.lower().endswith(suffixes):
            return format_
    return None


def _what(files: Sequence[Path]) -> str:
    counts = Counter(_format_of(file) or f"unknown ({file.suffix or file.name})" for file in files)
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _nanosecond_columns(files: Sequence[Path]) -> dict[str, str]:
    """Parquet columns that count nanoseconds, and the type of Spark that each becomes."""
    found: dict[str, str] = {}
    for file in files:
        for field in _parquet_schema(file):
            if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
                found[field.name] = "timestamp" if field.type.tz else "timestamp_ntz"
    return found


def _parquet_schema(file: Path) -> pa.Schema:
    try:
        # INT96, Spark's own form of times, it reads itself.
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").schema_arrow
    except (pa.ArrowInvalid, OSError) as exc:
        raise errors.SourceUnreadable(f"{file} is called Parquet, but cannot be read as such: {exc}") from exc


_KNOWN = f"{Format.PARQUET}, {Format.CSV} or {Format.JSON}"
