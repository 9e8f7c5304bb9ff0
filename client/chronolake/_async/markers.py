"""The markers of one instant, kept by the server or as direct markers in the table's storage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from chronolake import calls
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._location import StoredMarkers
from chronolake_model import operations
from chronolake_model.markers import CreateMarkers, Marker, MarkerOutcome


class AsyncMarkers(Protocol):
    """The markers of one instant."""

    async def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """Create markers durably; returns for each whether it is new or existed.

        Raises ``InvalidMarker``: then none is created.
        """

    def listed(self, unpublished: bool = False) -> AsyncIterator[Marker]:
        """All markers, by partition path, file name and kind; see ``AsyncTable.markers``."""

    async def check(self, marker: Marker) -> bool:
        """Whether this marker exists. Raises ``ValueError`` if it is not a valid marker."""

    async def delete_all(self) -> int:
        """Delete all markers, and return their number. It may be repeated."""


class AsyncServerMarkers:
    """Markers that the server keeps; see ``AsyncWrite.mark`` for its refusals."""

    def __init__(self, transport: AsyncTransport, table: str, requested_time: str, writer: str | None) -> None:
        self._transport = transport
        self._instant = (table, requested_time)
        self._writer = writer

    async def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``AsyncMarkers.create``; 10,000 at most."""
        call = calls.call(
            operations.files.CREATE_MARKERS, *self._instant, body=CreateMarkers([*markers], self._writer)
        )
        return (await self._transport.send(call)).outcomes

    def listed(self, unpublished: bool = False) -> AsyncIterator[Marker]:
        """As ``AsyncMarkers.listed``, fetched page by page."""
        call = calls.files.list_markers(*self._instant, unpublished)
        return self._transport.entries(call, lambda page: page.markers)

    async def check(self, marker: Marker) -> bool:
        """As ``AsyncMarkers.check``."""
        return (await self._transport.send(calls.files.find_marker(*self._instant, marker))).exists

    async def delete_all(self) -> int:
        """As ``AsyncMarkers.delete_all``; raises ``IllegalTransition`` while the instant is pending."""
        return (await self._transport.send(calls.call(operations.files.DELETE_MARKERS, *self._instant))).deleted


class AsyncDirectMarkers:
    """Direct markers, in the table's storage. All methods may also raise ``StorageFailed``."""

    def __init__(self, markers: StoredMarkers) -> None:
        self._markers = markers

    async def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``AsyncMarkers.create``; the first call claims the table's base path.

        If the storage fails midway, the markers created so far remain: repeat the call.
        """
        return await concurrency.run_blocking(self._markers.create, markers)

    def listed(self, unpublished: bool = False) -> AsyncIterator[Marker]:
        """As ``AsyncMarkers.listed``; other files in the folder are left out."""
        if unpublished:
            raise ValueError(
                "direct markers cannot be filtered by publication, because only the server knows the published "
                "files; list all of them"
            )
        return self._listed()

    async def check(self, marker: Marker) -> bool:
        """As ``AsyncMarkers.check``."""
        return await concurrency.run_blocking(self._markers.exists, marker)

    async def delete_all(self) -> int:
        """As ``AsyncMarkers.delete_all``. The caller must make sure that the instant has ended.

        Raises ``StorageFailed`` when the folder also has other files: they are not deleted.
        """
        return await concurrency.run_blocking(self._markers.delete_all)

    async def _listed(self) -> AsyncIterator[Marker]:
        for marker in await concurrency.run_blocking(self._markers.list_all):
            yield marker
