"""Files to ingest: finding them, inspecting their content, and reading them with Spark."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as sf
from pyspark.sql.types import StructField, StructType

from chronolake.slices import columns
from chronolake_spark import errors
from chronolake_spark.driver import spark_internals
from chronolake_spark.driver.schema import quoted, type_of
from chronolake_spark.ingest import csv_files, json_types, text_columns
from chronolake_spark.ingest.csv_files import ReadOptions
from chronolake_spark.ingest.files import formats, json_files, parquet_files, text_files
from chronolake_spark.ingest.files.bad_rows import BadRows
from chronolake_spark.ingest.files.csv_profiles import Profile
from chronolake_spark.ingest.files.formats import Format
from chronolake_spark.ingest.files.set_aside import SetAside

_PATTERN = re.compile(r"[\\{}\[\]*?]")
_SCHEMES = ("file:", "file://")
_BLOCK = "_chronolake_source_block"
_FILE_BYTES_MAX = 2**42
"""Larger than any file, so that one number orders files and offsets in them: four terabytes, of 2**21 files."""
_NAMES_MAX = 5
_TSV = ". Convert files with tabs to .csv, as docs/ingest.md#other-separators shows"
_NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


_OPTIONS = {
    # Dates and times are those of the file, whatever the session says about old calendars.
    Format.PARQUET: {
        "mergeSchema": "true",
        "datetimeRebaseMode": "CORRECTED",
        "int96RebaseMode": "CORRECTED",
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
    },
    # FAILFAST: a line that is not what the others are stops the job; it is not stored as nulls. Spark would
    # take a column of the name that it reserves for such lines for its own, and read null.
    Format.JSON: {"mode": "FAILFAST", "columnNameOfCorruptRecord": "_chronolake_corrupt_record"},
}
_READER = {Format.PARQUET: "parquet", Format.JSON: "json"}


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files of one format, in the order of their names. ``left_out`` names those beside them of no format."""

    format: Format
    files: tuple[Path, ...]
    left_out: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A description for messages."""
        names = ", ".join(self.left_out[:_NAMES_MAX]) + (", …" if len(self.left_out) > _NAMES_MAX else "")
        left_out = f" (left out, of no known format: {names})" if names else ""
        return f"{len(self.files)} {self.format} file{'s' if len(self.files) > 1 else ''}{left_out}"


def find(where: str) -> SourceFiles:
    """The files that a path, a folder or a glob pattern names.

    Files of a folder whose names begin with ``.`` or ``_``, or say no known format, are left out. Raises
    ``SourceUnreadable`` when there are none, or files of several formats.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        return _of_folder(path)
    paths = [path] if path.is_file() else [Path(name) for name in glob.glob(str(path), recursive=True)]
    files = sorted(file.resolve() for file in paths if file.is_file())
    named = {formats.format_of(file) for file in files}
    if not files:
        raise errors.SourceUnreadable(f"no file or folder matches {where!r} (working directory: {Path.cwd()})")
    if len(named) > 1 or None in named:
        raise errors.SourceUnreadable(
            f"{where!r} names {_formats_in(files)}; name files of one format: {formats.KNOWN}"
            f"{_TSV if any(file.suffix.lower() == '.tsv' for file in files) else ''}"
        )
    return SourceFiles(named.pop() or Format.PARQUET, tuple(files))


def column_names(source: SourceFiles, encoding: str) -> list[str] | None:
    """The names of the columns, from headers and footers; None for JSON, whose records have to be read.

    Raises ``SourceUnreadable``.
    """
    match source.format:
        case Format.CSV:
            return list(csv_files.header_of(source.files[0], encoding))
        case Format.PARQUET:
            return list(
                dict.fromkeys(name for file in source.files for name in parquet_files.schema_of(file).names)
            )
        case Format.JSON:
            return None


def digest(path: Path) -> str:
    """A fingerprint of the file's content, independent of its name."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class SourceContent:
    """The content of files: the columns of all of them together, and the number of rows if it was counted.

    ``profiles`` are those of columns whose types were inferred from texts. ``untyped`` are columns of Parquet
    files that have no type, and only nulls.
    """

    struct: StructType
    rows: int | None
    profiles: Mapping[str, Profile]
    untyped: Sequence[str] = ()


def inspect(
    spark: SparkSession, source: SourceFiles, reading: ReadOptions, check: Callable[[], None], bad: BadRows
) -> SourceContent:
    """The schema of all files of ``source``, from all of their rows.

    CSV files are read as a whole, and checked for anything that loading would refuse. Bad rows are added to
    ``bad``. ``check`` is called now and then, and may raise to end it. Raises ``SourceUnreadable``,
    ``SchemaMismatch``, ``TooManyBadRows``, and what Spark raises.
    """
    if source.format is Format.CSV:
        inspection = csv_files.inspect(source.files, reading, check, bad)
        types = {name: _type_of(name, profile, reading) for name, profile in inspection.profiles.items()}
        struct = StructType([StructField(name, type_of(type_)) for name, type_ in types.items()])
        inferred = {
            name: inspection.profiles[name] for name in inspection.profiles if reading.column(name) is None
        }
        return SourceContent(struct, inspection.rows, inferred)
    if source.format is Format.JSON:
        shape = json_files.shape_of(source.files, op_column=reading.op_column, check=check, bad=bad)
        return SourceContent(json_types.struct_of(shape, reading), None, {})
    parquet_files.check(source.files, reading.op_column, check, bad.add)
    untyped = parquet_files.untyped_columns(source.files)
    with _under_plain_names(source.files) as files:
        return SourceContent(_read(spark, source, files, None).schema, None, {}, untyped)


def read(
    spark: SparkSession,
    source: SourceFiles,
    files: Sequence[Path],
    struct: StructType,
    reading: ReadOptions,
    set_aside: SetAside,
) -> DataFrame:
    """The rows of ``files``, of the schema ``struct``; columns go by their names, also in CSV files.

    Rows that were ``set_aside`` are left out.

    Two columns more, ``columns.SOURCE_ORDER``, order the rows as the files do: by the position in ``files``,
    then by the place in the file, however Spark splits the files and packs the splits.
    Raises ``SourceUnreadable``, and what Spark raises.
    """
    left_out = {path: numbers for file in files for path, numbers in _left_out(spark, file, set_aside)}
    files = [set_aside.file(file) for file in files]
    if source.format is Format.CSV:
        return csv_files.frame(spark, files, struct, reading)
    groups = _groups_of_one_schema(source, files)
    placed = [_with_source_order(_without(_read(spark, source, group, struct), left_out)) for group in groups]
    frames = [text_columns.converted(frame, reading) for frame in placed]
    return _numbered(spark, functools.reduce(DataFrame.unionByName, frames), files)


def _type_of(name: str, profile: Profile, reading: ReadOptions) -> str:
    known = reading.column(name)
    return profile.type if known is None else known.type


def _groups_of_one_schema(source: SourceFiles, files: Sequence[Path]) -> list[list[Path]]:
    """``files`` in groups that Spark reads with the same options."""
    if source.format is not Format.JSON:
        return [list(files)]
    arrays = [file for file in files if text_files.is_json_array(file)]
    lines = [file for file in files if file not in arrays]
    return [group for group in (lines, arrays) if group]


def _left_out(spark: SparkSession, file: Path, set_aside: SetAside) -> Iterator[tuple[str, Collection[int]]]:
    """The address of a file, as Spark may write it, and the numbers of its rows that are set aside, if any."""
    if numbers := set_aside.numbers(file):
        for scheme in _SCHEMES:
            yield f"{scheme}{spark_internals.escaped_path(spark, file)}", numbers


def _without(frame: DataFrame, left_out: Mapping[str, Collection[int]]) -> DataFrame:
    """``frame``, which reads Parquet files, without rows by their file and number."""
    place = frame.metadataColumn("_metadata")
    for path, numbers in left_out.items():
        frame = frame.where(~((place["file_path"] == path) & place["row_index"].isin(list(numbers))))
    return frame


def _with_source_order(frame: DataFrame) -> DataFrame:
    """``frame``, which reads files, with the path, the offset of the split, and an id that increases in it."""
    place = frame.metadataColumn("_metadata")
    return frame.select(
        "*",
        place["file_path"].alias(columns.SOURCE_SPLIT),
        place["file_block_start"].alias(_BLOCK),
        sf.monotonically_increasing_id().alias(columns.SOURCE_ROW),
    )


def _numbered(spark: SparkSession, placed: DataFrame, files: Sequence[Path]) -> DataFrame:
    """``placed``, which reads ``files``, with ``columns.SOURCE_ORDER``.

    Spark cuts large files into splits, and packs splits of several files into one task, the largest first. But
    the rows of one split come in order and one after the other, so that an id which increases within the task
    orders them; splits are ordered by their file and by the offset at which they begin.
    """
    paths = [spark_internals.escaped_path(spark, file) for file in files]
    # Releases of Spark differ in how they write the scheme of a local file.
    known = [(f"{scheme}{path}", number) for number, path in enumerate(paths) for scheme in _SCHEMES]
    numbers = spark.createDataFrame(known, "path string, file long")
    if len(files) == 1:
        # Without a join: most ingests are of one file.
        return placed.withColumn(columns.SOURCE_SPLIT, sf.col(_BLOCK)).drop(_BLOCK)
    joined = placed.join(sf.broadcast(numbers), placed[columns.SOURCE_SPLIT] == numbers["path"], "left")
    number = sf.coalesce(numbers["file"], sf.raise_error(sf.lit("a row of none of the files")).cast("long"))
    split = number * sf.lit(_FILE_BYTES_MAX) + placed[_BLOCK]
    own = [placed[quoted(name)] for name in placed.columns if name not in (*columns.SOURCE_ORDER, _BLOCK)]
    return joined.select(*own, split.alias(columns.SOURCE_SPLIT), placed[columns.SOURCE_ROW])


def _read(
    spark: SparkSession, source: SourceFiles, files: Sequence[Path], struct: StructType | None
) -> DataFrame:
    options = _OPTIONS[source.format]
    if source.format is Format.JSON:
        options = {**options, "multiLine": str(text_files.is_json_array(files[0])).lower()}
    reader = spark.read.options(**options)
    nanos = parquet_files.nanosecond_columns(files) if source.format is Format.PARQUET else {}
    if nanos:
        # Spark knows no nanoseconds: pandas and pyarrow write them unless told otherwise.
        spark.conf.set(_NANOS_AS_LONG, "true")
    elif struct is not None:
        reader = reader.schema(struct)
    frame = reader.format(_READER[source.format]).load([_address(file) for file in files])
    return frame.withColumns({name: _time_of_nanos(name, type_) for name, type_ in nanos.items()})


def _time_of_nanos(name: str, type_: str) -> Column:
    """A time from whole microseconds that are counted as nanoseconds.

    In integers, because a division of such a number as a double may give the microsecond before. A time without
    a zone is counted from another one, because a cast from a time with a zone depends on the session.
    """
    micros = f"{quoted(name)} div 1000"
    if type_ == "timestamp":
        return sf.expr(f"timestamp_micros({micros})")
    return sf.expr(f"timestampadd(MICROSECOND, {micros}, timestamp_ntz'1970-01-01 00:00:00')")


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


def _of_folder(folder: Path) -> SourceFiles:
    visible = [file for file in folder.resolve().iterdir() if file.is_file() and file.name[0] not in "._"]
    files = [(file, format_) for file in visible if (format_ := formats.format_of(file)) is not None]
    chosen = {format_ for _, format_ in files}
    if not chosen:
        raise errors.SourceUnreadable(
            f"the folder {folder} holds no {formats.KNOWN} files; for files in folders below it give a "
            f"pattern, like '{folder}/**/*.parquet'"
        )
    if len(chosen) > 1:
        raise errors.SourceUnreadable(
            f"the folder {folder} holds {_formats_in([file for file, _ in files])}; load the files of each "
            f"format by a pattern, like '{folder}/*{files[0][0].suffix}'"
        )
    left_out = sorted({file.name for file in visible} - {file.name for file, _ in files})
    return SourceFiles(chosen.pop(), tuple(sorted(file for file, _ in files)), tuple(left_out))


def _formats_in(files: Sequence[Path]) -> str:
    counts = Counter(formats.format_of(file) or f"unknown ({file.suffix or file.name})" for file in files)
    return ", ".join(f"{count} x {name}" for name, count in counts.items())
