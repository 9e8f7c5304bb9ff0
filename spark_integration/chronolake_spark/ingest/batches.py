"""Which files an ingest loads with which commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from chronolake_spark.ingest.files import loaded_files
from chronolake_spark.ingest.files.loaded_files import LoadedFiles
from chronolake_spark.ingest.request import IngestRequest


class Batch(msgspec.Struct, frozen=True):
    """Files that become one commit. ``loaded`` says that the table has all of them already."""

    files: tuple[Path, ...]
    loaded: bool = False

    @property
    def name(self) -> str:
        """The name of the batch in messages."""
        return self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files"


def batches(
    files: Sequence[Path],
    digests: Mapping[Path, str],
    known: LoadedFiles,
    request: IngestRequest,
    files_max: int | None,
) -> Iterator[Batch]:
    """The commits to be, in order, each without the files that the table has, or that came before."""
    seen: set[str] = set()
    new: list[Path] = []
    for file in files:
        if not known.has(digests[file]) and digests[file] not in seen:
            seen.add(digests[file])
            new.append(file)
    if request.one_commit_per_file:
        yield from (Batch((file,), loaded=file not in new) for file in files)
    else:
        # One commit names all of its files, and has room for some thousand names.
        for portion in loaded_files.portions(new, digests, files_max):
            yield Batch(portion)
        if not new:
            yield Batch(tuple(files), loaded=True)
