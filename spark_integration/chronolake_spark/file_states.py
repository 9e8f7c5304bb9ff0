"""Whether files are unchanged since they were inspected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chronolake_spark import errors


def state_of(file: Path) -> str:
    """A text that differs once the file has been written, replaced or moved over: its size, times and inode."""
    stat = file.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def refuse_changed(states: Mapping[str, str]) -> None:
    """Raise ``SourceChanged`` for files that have another state than that in ``states``, by their paths."""
    changed = [path for path, state in states.items() if not _has_state(Path(path), state)]
    if changed:
        raise errors.SourceChanged(
            f"changed while they were loaded: {', '.join(changed)}; nothing of this commit is stored. Run the "
            "ingest again when no other program writes them",
            {"files": changed},
        )


def _has_state(file: Path, state: str) -> bool:
    try:
        return state_of(file) == state
    except OSError:
        return False
