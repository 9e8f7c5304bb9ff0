"""The batches of the soak: the records of each follow from the seed and from its version.

So an instant that names the version of a batch in its metadata names the value of each of its records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import chronolake

FIELDS = (
    chronolake.Field("id", "bigint", nullable=False),
    chronolake.Field("part", "int", nullable=False),
    chronolake.Field("version", "bigint", nullable=False),
    chronolake.Field("note", "string"),
)
VERSION = "soak.version"
"""The entry of an instant's metadata with the version of its batch."""
PATIENCE_SECONDS = 300.0
"""How long clients wait for a server that was killed, on a busy machine."""
LOADER = 0
WRITERS = (1, 2, 3)
_SLOTS = len(WRITERS) + 1
_OWNED = 40
"""Keys of a partition that have an owner, few enough to be deleted and inserted again and again."""
_PARTITIONS_OF_BATCH = 3
_KEYS_OF_PARTITION = 20
_OWNED_OF_PARTITION = 6
_NOTE_BYTES = 60


class Soak(msgspec.Struct, frozen=True):
    """The settings of a run, for all its processes. Its ``folder`` has the table, the journals and the logs."""

    url: str
    table: str
    folder: str
    seed: int
    keys: int
    partitions: int
    pause_seconds: float

    def partition(self, key: int) -> int:
        """The partition of a key."""
        return key % self.partitions

    def owner(self, key: int) -> int | None:
        """The only writer that writes, and deletes, a key; None for keys that all writers update.

        A writer inserts and deletes in its own partitions. Otherwise the slowest would lose each time against
        the inserts of the others (docs/decisions/0048).
        """
        is_owned = key < _OWNED * self.partitions
        return WRITERS[self.partition(key) % len(WRITERS)] if is_owned else None


class Batch(msgspec.Struct, frozen=True):
    """Keys to upsert and keys to delete; the larger version of a key counts."""

    version: int
    upserted: tuple[int, ...]
    deleted: tuple[int, ...] = ()


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a writer's journal: a batch is ``begun``, then ``acknowledged``, ``refused`` or ``failed``."""

    state: str
    version: int
    seconds: float = 0.0
    completion_time: str = ""
    winner: str = ""
    message: str = ""


def new_version(writer: int) -> int:
    """A version that no other batch has, and that is larger than those before of this machine."""
    return time.time_ns() // 1_000 * _SLOTS + writer


def batch(soak: Soak, version: int) -> Batch:
    """The batch of a version."""
    writer = version % _SLOTS
    if writer == LOADER:
        return Batch(version, tuple(range(soak.keys)))
    rng = random.Random(f"{soak.seed} {version}")
    upserted: list[int] = []
    deleted: list[int] = []
    for partition in rng.sample(range(soak.partitions), min(_PARTITIONS_OF_BATCH, soak.partitions)):
        keys = range(partition, soak.keys, soak.partitions)
        upserted += rng.sample(keys[_OWNED:], min(_KEYS_OF_PARTITION, len(keys) - _OWNED))
        if soak.owner(partition) == writer:
            for key in rng.sample(keys[:_OWNED], _OWNED_OF_PARTITION):
                (deleted if rng.random() < 0.5 else upserted).append(key)
    return Batch(version, tuple(upserted), tuple(deleted))


def note(key: int, version: int) -> str:
    """The text of a record; it compresses badly."""
    return random.Random(f"{key} {version}").randbytes(_NOTE_BYTES // 2).hex()


class Journal:
    """The journal of a writer: what it wrote down is there when it is killed."""

    def __init__(self, soak: Soak, writer: int) -> None:
        self.path = Path(soak.folder) / f"writer-{writer}.jsonl"

    def add(self, entry: Entry) -> None:
        """Write a line."""
        with self.path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def entries(self) -> Iterator[Entry]:
        """The lines so far. One that is being written is left out."""
        if self.path.exists():
            for line in self.path.read_bytes().split(b"\n")[:-1]:
                yield msgspec.json.decode(line, type=Entry)
