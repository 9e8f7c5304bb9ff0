"""Promise 3 in memory: a read of the ring gives the log in its order, each event once, or an error."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from chronolake_metastore.event_ring import EncodedEvent, EventRing, FellBehind, RingPlace, RingReading

TABLES = [UUID(int=number) for number in range(3)]
RING_BYTES = 6_000


def event(number: int, table_id: UUID, version: int, size: int) -> EncodedEvent:
    # Several events of one transaction, and positions that do not follow the transactions.
    place = RingPlace(1 + number // 3, 1_000 - 10 * (number // 3) + number % 3)
    body = b',"n":' + str(number).encode() + b',"x":"' + b"x" * size + b'"}'
    return EncodedEvent(place, table_id, version, "Type", f"c{number}", f"t{number}", body)


@given(
    size=st.integers(0, 300),
    pieces=st.lists(st.integers(1, 90), min_size=1, max_size=40),
    of_table=st.booleans(),
)
def test_the_pieces_of_a_frame_are_the_frame(size: int, pieces: list[int], of_table: bool) -> None:
    whole = event(7, TABLES[0], 1, size)
    frame = whole.frame(of_table=of_table)
    read = b""
    for bytes_max in pieces:
        piece = whole.piece(len(read), bytes_max, of_table=of_table)
        assert len(piece) == min(bytes_max, len(frame) - len(read))
        read += piece

    assert whole.size(of_table=of_table) == len(frame)
    assert frame.startswith(read)


class Reader:
    """A follower of all tables or of one, which resumes after the last whole event when the ring ends."""

    def __init__(self, table_id: UUID | None) -> None:
        self.table_id = table_id
        self.reading: RingReading | None = None
        self.text = b""

    @property
    def frames(self) -> list[bytes]:
        return self.text.split(b"\r\n\r\n")[:-1]


class RingMachine(RuleBasedStateMachine):
    """Events are appended while readers join, read in small chunks, leave the ring and join again."""

    readers = Bundle("readers")

    @initialize()
    def start(self) -> None:
        self.log: list[EncodedEvent] = []
        self.all: list[Reader] = []
        self.ring = EventRing(RING_BYTES)
        self.ring.start(RingPlace())

    @rule(table=st.sampled_from(TABLES), size=st.integers(0, 4_000))
    def append(self, table: UUID, size: int) -> None:
        version = 1 + sum(logged.table_id == table for logged in self.log)
        self.log.append(event(len(self.log), table, version, size))
        self.ring.append(self.log[-1:])

    @rule(target=readers, table=st.sampled_from([None, *TABLES]))
    def come(self, table: UUID | None) -> Reader:
        self.all.append(Reader(table))
        return self.all[-1]

    @rule(reader=readers)
    def join(self, reader: Reader) -> None:
        """As a follower that catches up: everything from the log, and then on from the ring."""
        frames = self.wanted(reader)
        reader.text = b"".join(frame + b"\r\n\r\n" for frame in frames)
        assert self.ring.covers(self.ring.head)
        version = sum(logged.table_id == reader.table_id for logged in self.log)
        reader.reading = RingReading(self.ring.number_after(self.ring.head), reader.table_id, version)

    @rule(reader=readers, bytes_max=st.integers(1, 3_000))
    def read(self, reader: Reader, bytes_max: int) -> None:
        if reader.reading is None:
            return
        try:
            chunk = self.ring.read(reader.reading, bytes_max)
        except FellBehind:
            reader.reading = None
            reader.text = reader.text[: reader.text.rfind(b"\r\n\r\n") + 4] if reader.frames else b""
            return
        assert len(chunk) <= bytes_max
        reader.text += chunk

    @rule()
    def restart(self) -> None:
        """A new process: the ring begins at the end of the log, and all readers are to come again."""
        head = self.log[-1].place if self.log else RingPlace()
        for reader in self.all:
            reader.reading = None
        self.ring = EventRing(RING_BYTES)
        self.ring.start(head)

    def wanted(self, reader: Reader) -> list[bytes]:
        of_table = reader.table_id is not None
        return [
            logged.frame(of_table=of_table)[:-4]
            for logged in self.log
            if reader.table_id in (None, logged.table_id)
        ]

    @invariant()
    def each_reader_saw_the_log_in_its_order_without_a_gap(self) -> None:
        for reader in self.all:
            assert reader.frames == self.wanted(reader)[: len(reader.frames)]

    @invariant()
    def the_ring_is_bounded(self) -> None:
        assert self.ring.bytes <= RING_BYTES or self.ring.bytes == self.log[-1].cost_bytes

    @override
    def teardown(self) -> None:
        for reader in self.all:
            while reader.reading is not None:
                before = reader.text
                self.read(reader, 500)
                if reader.text == before:
                    break
            if reader.reading is not None:
                assert reader.frames == self.wanted(reader)


TestRing = RingMachine.TestCase


def test_a_position_is_located_in_the_ring() -> None:
    ring = EventRing(RING_BYTES)
    events = [event(number, TABLES[0], number + 1, 10) for number in range(6)]
    ring.start(RingPlace())
    ring.append(events)

    assert [ring.number_after(event.place) for event in events] == [1, 2, 3, 4, 5, 6]
    assert ring.number_after(RingPlace()) == 0
    assert ring.number_after(RingPlace(999, 1)) == 6


@given(have=st.integers(0, 8), given=st.integers(0, 12), of_table=st.booleans())
def test_a_reader_that_is_ahead_of_the_ring_gets_nothing_twice(have: int, given: int, of_table: bool) -> None:
    """Another server had given it more than this one has read from the log so far."""
    events = [event(number, TABLES[0], 1 + number, 5) for number in range(12)]
    ring = EventRing(2 * RING_BYTES)  # All twelve fit.
    ring.start(RingPlace())
    ring.append(events[:have])
    after = events[given - 1].place if given else RingPlace()
    reading = RingReading(ring.number_after(after), TABLES[0] if of_table else None, given, after)

    text = ring.read(reading, 100_000)
    ring.append(events[have:])
    text += ring.read(reading, 100_000)

    assert text == b"".join(event.frame(of_table=of_table) for event in events[given:])
