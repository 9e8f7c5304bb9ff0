"""The files that were loaded into a table: each commit records the paths and content digests of its files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

import chronolake
from chronolake.slices import errors
from chronolake_model import decoding
from chronolake_model.instants import Instant
from chronolake_model.tables import PROPERTIES_BYTES_MAX
from chronolake_model.vocabulary import State, TimeOrder

FILES: Final = "ingest.files"
"""In a commit's extra metadata: a JSON object of the paths of its files and the SHA-256 of their content.

What does not fit into one text goes on under ``ingest.files.1`` and so on.
"""
_TEXT_CHARS_MAX = 16_000
METADATA_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - 2 * _TEXT_CHARS_MAX
"""Maximum number of bytes of a commit's extra metadata for its files; the other metadata is far smaller."""


class LoadedFiles:
    """The paths and the content of the files that the completed commits of a table hold."""

    def __init__(self, digests: Mapping[str, set[str]]) -> None:
        self._digests = digests
        self._known = {digest for of_path in digests.values() for digest in of_path}

    @classmethod
    def of(cls, table: chronolake.Table) -> LoadedFiles:
        """The files that are recorded in the timeline of ``table``."""
        return cls.of_instants(table.instants(state=State.COMPLETED))

    @classmethod
    def of_instants(cls, instants: Iterable[Instant]) -> LoadedFiles:
        """The files that these instants record."""
        digests: dict[str, set[str]] = {}
        for instant in instants:
            _add(digests, instant)
        return cls(digests)

    def has(self, digest: str) -> bool:
        """Whether a commit has loaded a file of this content, under any name."""
        return digest in self._known

    def has_any(self, digests: Collection[str]) -> bool:
        """Whether a commit has loaded a file of one of these contents."""
        return not self._known.isdisjoint(digests)

    def has_another(self, file: Path, digest: str) -> bool:
        """Whether commits hold a file of this path, but only with other content."""
        return str(file) in self._digests and not self.has(digest)


def commits_of(table: chronolake.Table, digests: Collection[str]) -> int:
    """The number of completed commits of a table that loaded a file of this content."""
    return sum(
        LoadedFiles.of_instants([instant]).has_any(digests) for instant in table.instants(state=State.COMPLETED)
    )


class FollowedFiles:
    """``LoadedFiles`` of a table that is asked for again and again: reads what completed since."""

    def __init__(self) -> None:
        self._digests: dict[str, set[str]] = {}
        self._completed: str | None = None

    def of(self, table: chronolake.Table) -> LoadedFiles:
        """The files that the timeline of ``table`` records, also if a restore undid their commit since."""
        for instant in table.instants(
            state=State.COMPLETED, order_by=TimeOrder.COMPLETION_TIME, completed_from=self._completed
        ):
            _add(self._digests, instant)
            self._completed = instant.completion_time
        return LoadedFiles(self._digests)


def metadata(digests: Mapping[Path, str]) -> dict[str, str]:
    """The extra metadata of a commit of these files."""
    pieces = list(_pieces(digests.items()))
    return {FILES if number == 0 else f"{FILES}.{number}": text for number, text in enumerate(pieces)}


def portions(
    files: Iterable[Path], digests: Mapping[Path, str], files_max: int | None = None
) -> Iterator[tuple[Path, ...]]:
    """The files of each commit, in order: as many as its extra metadata can name, and ``files_max``."""
    portion: list[Path] = []
    size_bytes = 0
    for file in files:
        # The text with the entry is a text in another document, in which its quotes are escaped.
        entry_bytes = len(msgspec.json.encode(msgspec.json.encode({str(file): digests[file]}).decode()))
        is_full = size_bytes + entry_bytes > METADATA_BYTES_MAX or len(portion) == files_max
        if portion and is_full:
            yield tuple(portion)
            portion, size_bytes = [], 0
        portion.append(file)
        size_bytes += entry_bytes
    if portion:
        yield tuple(portion)


def _add(digests: dict[str, set[str]], instant: Instant) -> None:
    for name, text in instant.extra_metadata.items():
        if name == FILES or name.startswith(f"{FILES}."):
            for path, digest in decoding.decode(text, dict[str, str]).items():
                digests.setdefault(path, set()).add(digest)


def _pieces(items: Iterable[tuple[Path, str]]) -> Iterable[str]:
    held: dict[str, str] = {}
    chars = 0
    for file, digest in items:
        entry = len(msgspec.json.encode({str(file): digest}).decode())
        if held and chars + entry > _TEXT_CHARS_MAX:
            yield msgspec.json.encode(held).decode()
            held, chars = {}, 0
        held[str(file)] = digest
        chars += entry
    if held:
        yield msgspec.json.encode(held).decode()


def state_of_file(file: Path) -> str:
    """The size, times and inode of a file as a text, which changes when the file is written or replaced."""
    stat = file.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def refuse_changed_files(states: Mapping[str, str]) -> None:
    """Raise ``SourceChanged`` for files that have another state than that in ``states``, by their paths."""
    changed = [path for path, state in states.items() if not _has_state(Path(path), state)]
    if changed:
        raise errors.SourceChanged(
            f"files changed while they were loaded: {', '.join(changed)}; this commit was not stored. Run the "
            "ingest again when no other program writes them",
            {"files": changed},
        )


def _has_state(file: Path, state: str) -> bool:
    try:
        return state_of_file(file) == state
    except OSError:
        return False
