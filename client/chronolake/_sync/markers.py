# Generated from chronolake/_async/markers.py by tools/async_to_sync.py: do not edit.
"""The markers of one instant, kept by the server or as direct markers in the table's storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from chronolake import calls
from chronolake._concurrency import blocking as concurrency
from chronolake._location import StoredMarkers
from chronolake._sync.transport import Transport
from chronolake_model import operations
from chronolake_model.markers import CreateMarkers, Marker, MarkerOutcome


class Markers(Protocol):
    """The markers of one instant."""

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """Create markers durably; returns for each whether it is new or existed.

        Raises ``InvalidMarker``: then none is created.
        """

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """All markers, by partition path, file name and kind; see ``Table.markers``."""

    def check(self, marker: Marker) -> bool:
        """Whether this marker exists. Raises ``ValueError`` if it is not a valid marker."""

    def delete_all(self) -> int:
        """Delete all markers, and return their number. It may be repeated."""


class ServerMarkers:
    """Markers that the server keeps; see ``Write.mark`` for its refusals."""

    def __init__(self, transport: Transport, table: str, requested_time: str, writer: str | None) -> None:
        self._transport = transport
        self._instant = (table, requested_time)
        self._writer = writer

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``Markers.create``; 10,000 at most."""
        call = calls.call(
            operations.files.CREATE_MARKERS, *self._instant, body=CreateMarkers([*markers], self._writer)
        )
        return self._transport.send(call).outcomes

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """As ``Markers.listed``, fetched page by page."""
        call = calls.files.list_markers(*self._instant, unpublished)
        return self._transport.entries(call, lambda page: page.markers)

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        return self._transport.send(calls.files.find_marker(*self._instant, marker)).exists

    def delete_all(self) -> int:
        """As ``Markers.delete_all``; raises ``IllegalTransition`` while the instant is pending."""
        return self._transport.send(calls.call(operations.files.DELETE_MARKERS, *self._instant)).deleted


class DirectMarkers:
    """Direct markers, in the table's storage. All methods may also raise ``StorageFailed``."""

    def __init__(self, markers: StoredMarkers) -> None:
        self._markers = markers

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``Markers.create``; the first call claims the table's base path.

        If the storage fails midway, the markers created so far remain: repeat the call.
        """
        return concurrency.run_blocking(self._markers.create, markers)

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """As ``Markers.listed``; other files in the folder are left out."""
        if unpublished:
            raise ValueError(
                "direct markers cannot be filtered by publication, because only the server knows the published "
                "files; list all of them"
            )
        return self._listed()

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        return concurrency.run_blocking(self._markers.exists, marker)

    def delete_all(self) -> int:
        """As ``Markers.delete_all``. The caller must make sure that the instant has ended.

        Raises ``StorageFailed`` when the folder also has other files: they are not deleted.
        """
        return concurrency.run_blocking(self._markers.delete_all)

    def _listed(self) -> Iterator[Marker]:
        for marker in concurrency.run_blocking(self._markers.list_all):
            yield marker
