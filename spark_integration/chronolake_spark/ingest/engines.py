"""The engines of ``chronolake ingest``: this process, or Spark. It imports neither."""

from __future__ import annotations

import enum
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from chronolake_model.names import counted

if TYPE_CHECKING:
    from chronolake.ingest.job import IngestEngine
    from chronolake.ingest.request import IngestRequest
    from chronolake.ingest.source_files import SourceFiles

BYTES_MAX: Final = 2 << 30
"""Maximum size of the files that ``auto`` loads without Spark."""
_COMPRESSED_TIMES: Final = 4
"""Text that is compressed, and Parquet, count this number of times; .gz with the size it states, if larger."""
_SIZE_BYTES: Final = 4
HELP: Final = (
    "arrow loads in this process, without Java; spark starts Spark. auto takes arrow for files of up to "
    f"{BYTES_MAX >> 30} GB together (compressed files and Parquet count {_COMPRESSED_TIMES} times, or .gz by "
    "its text), and spark for more, for --follow, and for an SQL expression in --partition."
)


class EngineName(enum.StrEnum):
    """The engine that a caller wants."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """The engine that is taken, and why. ``summary`` describes the files."""

    name: EngineName
    reason: str
    summary: str = ""


def choose(wanted: EngineName, request: IngestRequest, source: SourceFiles | None) -> ChosenEngine:
    """The engine for a request. ``source`` is None if files are followed. Raises ``typer.BadParameter``."""
    summary = "" if source is None else source.summary
    needs = _need_of_spark(request, source)
    if wanted is EngineName.ARROW and needs is not None:
        raise typer.BadParameter(f"{needs} needs Spark: leave --engine out", param_hint="--engine")
    if wanted is not EngineName.AUTO:
        return ChosenEngine(wanted, f"--engine {wanted}", summary)
    if source is None or needs is not None:
        return ChosenEngine(EngineName.SPARK, f"{needs} needs it", summary)
    size = sum(_size(file) for file in source.files)
    files = f"{counted(len(source.files), 'file')} of {size / 1e6:,.1f} MB"
    if size <= BYTES_MAX:
        return ChosenEngine(EngineName.ARROW, f"{files}, up to {BYTES_MAX >> 30} GB need no Spark", summary)
    if importlib.util.find_spec("pyspark") is None:
        return ChosenEngine(EngineName.ARROW, f"{files}, and PySpark is not installed", summary)
    return ChosenEngine(EngineName.SPARK, f"{files}, more than {BYTES_MAX >> 30} GB", summary)


def arrow() -> IngestEngine:
    """The engine without Spark."""
    from chronolake.ingest.arrow_engine import ArrowEngine  # noqa: PLC0415  # slow

    return ArrowEngine()


def _need_of_spark(request: IngestRequest, source: SourceFiles | None) -> str | None:
    from chronolake.ingest import request as ingest_request  # noqa: PLC0415  # slow

    if source is None:
        return "--follow"
    derived = ingest_request.derived_columns(request)
    return f"--partition {next(iter(derived))}=…, an SQL expression," if derived else None


def _size(file: Path) -> int:
    size, suffix = file.stat().st_size, file.suffix.lower()
    if suffix in {".csv", ".json", ".jsonl", ".ndjson"}:
        return size
    return max(size * _COMPRESSED_TIMES, _size_stated(file) if suffix == ".gz" else 0)


def _size_stated(file: Path) -> int:
    """The size of the text that ends a gzip file; above 4 GB it is only the rest."""
    with file.open("rb") as content:
        content.seek(max(content.seek(0, os.SEEK_END) - _SIZE_BYTES, 0))
        return int.from_bytes(content.read(), "little")
