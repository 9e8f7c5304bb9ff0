"""Where the batches of a stream end: at whole instants, within limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, Operation

CHANGING: Final = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.RESTORE)
"""The completed actions that change which records a table has."""
SERVICES: Final = (Operation.COMPACT, Operation.LOG_COMPACT, Operation.CLUSTER)
"""The operations that write records of a table again, and change none."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Upper limits of a batch; None: no limit. The first instant of a batch is never too large for it."""

    commits: int | None = None
    files: int | None = None
    size_bytes: int | None = None

    def admits(self, commits: int, files: int, size_bytes: int) -> bool:
        """Whether a batch of this size is within the limits."""
        pairs = ((commits, self.commits), (files, self.files), (size_bytes, self.size_bytes))
        return all(limit is None or amount <= limit for amount, limit in pairs)


def end_of_batch(instants: Iterable[Instant], limits: BatchLimits) -> str | None:
    """The completion time of the last instant that fits; None without instants.

    ``instants`` come in the order of completion. No more of them are taken than are needed.
    """
    end: str | None = None
    files = size_bytes = 0
    for commits, instant in enumerate(instants, start=1):
        assert instant.completion_time is not None, "only completed instants are read"
        summary = instant.summary
        files += 0 if summary is None else summary.files
        size_bytes += 0 if summary is None else summary.size_bytes
        if end is not None and not limits.admits(commits, files, size_bytes):
            break
        end = instant.completion_time
        if limits.commits is not None and commits >= limits.commits:
            break
    return end
