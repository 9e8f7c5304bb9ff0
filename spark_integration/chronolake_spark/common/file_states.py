"""Whether files are unchanged since they were inspected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chronolake_spark import errors


def state_of(file: Path) -> str:
    """The size, times and inode of a file as a text, which changes when the file is written or replaced."""
    stat = file.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def refuse_changed(states: Mapping[str, str]) -> None:
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
        return state_of(file) == state
    except OSError:
        return False
