"""The markers of one attempt of a task: each is created before its file, in few requests."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from chronolake.indexes.tables import BlockingMarkers
from chronolake.slices import errors
from chronolake_model.markers import MARKERS_MAX, Marker


class TaskMarkers:
    """Creates markers, each once. Threads may share it."""

    def __init__(self, markers: BlockingMarkers) -> None:
        self._markers = markers
        # In the order in which they were created.
        self._created: dict[Marker, None] = {}
        self._lock = threading.Lock()

    def create(self, wanted: Iterable[Marker]) -> None:
        """Create those that this attempt has not created. Raises what ``Write.mark`` does."""
        with self._lock:
            new = list(dict.fromkeys(marker for marker in wanted if marker not in self._created))
            for first in range(0, len(new), MARKERS_MAX):
                some = new[first : first + MARKERS_MAX]
                self._markers.create(some)
                self._created.update(dict.fromkeys(some))

    @property
    def created(self) -> tuple[Marker, ...]:
        """The markers of this attempt so far, and so all files that it may have written."""
        return tuple(self._created)

    def refuse_given_up(self) -> None:
        """Raise ``AttemptGivenUp`` if the files of the attempt count as deleted.

        Call it after the files are complete: an earlier deletion has missed them, a later one finds them. The
        last marker is checked for all, because a stopped attempt loses all of its markers at once.
        """
        if self._created and not self._markers.check(last := next(reversed(self._created))):
            raise errors.AttemptGivenUp(
                f"the attempt to write {last.path} was stopped before its end: another attempt has won, or the "
                "write was rolled back",
                {"path": last.path},
            )
