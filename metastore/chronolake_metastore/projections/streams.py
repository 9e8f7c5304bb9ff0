"""Streams, with the checkpoints and files in their buffers."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain import events, streams
from chronolake_metastore.domain.changes import BufferedVersion, InstantKey
from chronolake_metastore.domain.events import Event, ImpossibleEvent
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.streams import StreamKey
from chronolake_metastore.projections.projection import Entries, Followed, Named, Projection, Rows
from chronolake_metastore.store import buffered_files, streams as stored
from chronolake_metastore.store.postgres.transaction import Statement


class Streams(Projection):
    """The streams and their buffers."""

    tables = ("stream", "stream_checkpoint", "buffered_file")
    named = ("streams", "tables_of_streams")
    followed: ClassVar[Followed] = {
        **dict.fromkeys(streams.EVENTS),
        events.InstantRequested: attrgetter("stream"),
        events.WriteStatsStaged: attrgetter("report"),
        events.InstantCompleted: None,
        events.InstantRolledBack: None,
    }

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.changed: set[StreamKey] = set()
        self.checkpoints: set[tuple[StreamKey, int]] = set()
        self.unbuffered: list[InstantKey] = []
        """Instants of streams that have ended: they leave the buffers."""
        self.buffered: list[BufferedVersion] = []
        self.dropped: list[BufferedVersion] = []
        """Events whose files a task dropped, because it was restarted."""

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        of_tables, by_name = stored.find_of_tables(named.tables_of_streams), stored.find(named.streams)
        yield [by_name, of_tables]
        return {"streams": {**of_tables.result, **by_name.result}}

    @override
    def evolve(self, event: Event) -> None:
        match event.payload:
            case events.InstantCompleted() | events.InstantRolledBack():
                self._unbuffer(event)
            case events.InstantRequested() | events.WriteStatsStaged():
                place = self.state.instant_of(event).stream
                if place is not None:
                    self._change(event, place.name)
            case payload:
                if event.instant is not None:
                    raise ImpossibleEvent("the event of a stream names an instant")
                self._change(event, streams.name_of(payload))

    def _change(self, event: Event, name: str) -> None:
        key = event.table_id, name
        before = self.state.streams.get(key)
        after = streams.evolve(before, event)
        self.state.streams[key] = after
        self.changed.add(key)
        self.checkpoints.update((key, number) for number in streams.changed(before, after))
        if isinstance(event.payload, events.WriteStatsStaged) and event.payload.summary.files:
            assert event.instant is not None
            self.buffered.append(BufferedVersion(event.table_id, event.version, event.instant))
        self.dropped.extend(
            BufferedVersion(event.table_id, version, requested_time)
            for requested_time, version in streams.dropped(before, after, event.payload)
        )

    def _unbuffer(self, event: Event) -> None:
        """Take an instant that has ended out of the buffer of its stream, which may not be loaded."""
        ended = self.state.instant_of(event)
        if ended.stream is None:
            return
        self.unbuffered.append((event.table_id, ended.requested_time))
        key = event.table_id, ended.stream.name
        if key in self.state.streams:
            self.state.streams[key] = streams.without(self.state.streams[key], ended.requested_time)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        by_key = self.state.streams
        if self.unbuffered:
            # First: a checkpoint may have got another instant since.
            yield stored.delete_checkpoints(self.unbuffered)
        if self.changed:
            yield stored.save([(key[0], by_key[key]) for key in sorted(self.changed)])
        buffered = {
            (key, number): by_key[key].checkpoints[number]
            for key, number in self.checkpoints
            if number in by_key[key].checkpoints
        }
        if buffered:
            yield stored.save_checkpoints(buffered)
        if self.buffered or self.dropped or self.unbuffered:
            yield from buffered_files.project(self.buffered, self.dropped, self.unbuffered)
