"""Random histories of tables in one folder, with attacks on the guard, and an oracle of the needed files.

Tables are dropped, and others take their folders over: empty, or with a history that has times of the dropped
ones.

The oracle is a plain model: it knows each file that was ever made, and which of them may be deleted so far.
It uses neither the server nor the guard. After each step all other files must be there, as they were written.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

import chronolake
from chronolake import Action, MarkersType, WriteStat, errors
from chronolake_model.adoption import AdoptedInstant, AdoptTable
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.markers import Marker, MarkerKind, file_at
from chronolake_model.tables import CreateTable, NewBucketIndex, NewField
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import IndexType
from chronolake_storage import claims
from chronolake_storage.errors import StorageError
from chronolake_storage.files import MARKERS_FOLDER
from chronolake_storage.guard import Deleting

SCHEMA: Final = [
    chronolake.Field(name, type, nullable=False) for name, type in (("id", "bigint"), ("day", "string"))
]
STEPS: Final = 14
BUCKETS: Final = 2
PARTITIONS: Final = ("day=1", "day=2")
FOREIGN: Final = claims.Claim(
    1, "another-metastore", "another-table", "other.orders", "2026-11-22T00:00:00+00:00"
)


class SafeFileGone(AssertionError):
    """A file that the oracle calls safe was deleted or changed."""


class History:
    """One history: two tables, a folder that belongs to no table, and random commands."""

    def __init__(self, client: chronolake.Client, namespace: str, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._outside = folder / "outside"
        self._client = client
        self._namespace = namespace
        self._roots = [folder / f"t{number}" for number in range(2)]
        self._tables = [self._made(f"{namespace}.t{seed}_{number}", number) for number in range(2)]
        self._former: list[set[str]] = [set(), set()]
        """The requested times of the dropped tables of each folder."""
        self._pending: list[tuple[int, chronolake.Write, list[Marker]]] = []
        self._over: list[tuple[int, chronolake.Write]] = []
        self._latest: dict[tuple[int, str, int], Path] = {}
        self._safe: set[Path] = set()
        self._claimed_by_stranger: set[int] = set()
        for name in ("precious.parquet", base_file_name(bucket_file_id(0), "0-0-0", "20260101000000000")):
            self._write(self._outside / name)

    def play(self) -> None:
        """Play all steps. Raises ``SafeFileGone``."""
        for number in range(STEPS):
            step = self._begin if number < 2 else self._random.choice(self._steps())
            # A refusal is a valid result; the check is on the files that exist afterwards.
            with contextlib.suppress(errors.ChronolakeError, StorageError):
                step()
            self._check()

    def _steps(self) -> list[Callable[[], None]]:
        ordinary = [self._begin, self._publish, self._publish, self._give_up, self._clean, self._sweep]
        ordinary += [self._delete_orphans, self._stray, self._link]
        attacks = [self._attack_by_rollback, self._attack_by_reports, self._steal_the_claim]
        return [*ordinary, *[self._attack] * 5, *attacks, *[self._take_over] * 3]

    def _begin(self) -> None:
        self._begin_in(self._random.randrange(2))

    def _begin_in(self, number: int) -> None:
        markers = self._random.choice(list(MarkersType))
        write = self._tables[number].begin(markers=markers, writer=f"writer-{self._random.randrange(2)}")
        bucket, partition = self._random.randrange(BUCKETS), self._random.choice(PARTITIONS)
        name = base_file_name(bucket_file_id(bucket), "0-0-0", write.requested_time)
        marker = Marker(partition, name, MarkerKind.CREATE)
        write.mark(marker)
        if markers is MarkersType.DIRECT:
            self._safe.add(self._root(number) / MARKERS_FOLDER / write.requested_time / marker.name)
        self._write(self._root(number) / marker.path)
        self._pending.append((number, write, [marker]))

    def _publish(self) -> None:
        self._complete(*self._taken())

    def _complete(self, number: int, write: chronolake.Write, markers: list[Marker]) -> None:
        [marker] = markers
        bucket = int(marker.file_name[:8])
        size = len(marker.file_name)
        file_id = bucket_file_id(bucket)
        self._let_go_markers(number, write)
        write.complete(
            [WriteStat(marker.partition_path, file_id, marker.file_name, size, records=1, inserts=1)]
        )
        self._latest[number, marker.partition_path, bucket] = self._root(number) / marker.path
        self._over.append((number, write))

    def _give_up(self) -> None:
        number, write, markers = self._taken()
        self._let_go_markers(number, write)
        self._safe -= {self._root(number) / marker.path for marker in markers}
        self._over.append((number, write))
        write.rollback()

    def _clean(self) -> None:
        number = self._random.randrange(2)
        if number not in self._claimed_by_stranger:
            latest = set(self._latest.values())
            published = {path for path in self._safe if self._is_published(number, path)}
            self._safe -= published - latest
        self._tables[number].clean(retain_versions=1)

    def _sweep(self) -> None:
        self._tables[self._random.randrange(2)].sweep(grace_seconds=0)

    def _delete_orphans(self) -> None:
        table = self._tables[self._random.randrange(2)]
        table.delete_orphans(table.orphans(), unknown_instants=True)

    def _take_over(self) -> None:
        """Drop a table, and create or adopt another one in its folder, under another name or the same one."""
        number = self._random.randrange(2)
        dropped = self._tables[number]
        with contextlib.suppress(errors.ChronolakeError):
            self._begin_in(number)
            self._complete(*self._pending.pop())
        self._client.drop_table(dropped.name)
        # No instant of the dropped table publishes any more.
        for at, write, markers in self._pending:
            if at == number and number not in self._claimed_by_stranger:
                self._safe -= {self._root(number) / marker.path for marker in markers}
                self._safe -= self._markers_of(number, write.requested_time)
        self._former[number] |= {write.requested_time for at, write in self._over if at == number}
        self._former[number] |= {write.requested_time for at, write, _ in self._pending if at == number}
        self._pending = [pending for pending in self._pending if pending[0] != number]
        self._over = [over for over in self._over if over[0] != number]
        self._latest = {key: path for key, path in self._latest.items() if key[0] != number}
        name = self._random.choice([dropped.name, *[f"{self._namespace}.l{self._random.randrange(10**9)}"] * 3])
        with contextlib.suppress(errors.ChronolakeError):
            self._adopt(number, name)
            return
        self._tables[number] = self._made(name, number)

    def _adopt(self, number: int, name: str) -> None:
        """Adopt a table, with instants at the times of the dropped table's, and roll its pending ones back."""
        times = sorted(self._random.sample(sorted(self._former[number]), k=min(2, len(self._former[number]))))
        pending = [time for time in times if self._random.random() < 0.7]
        instants = [
            AdoptedInstant(time, Action.COMMIT, None if time in pending else _after(time)) for time in times
        ]
        instants.append(AdoptedInstant("20200101000000000", Action.COMMIT, "20200101000000001"))
        definition = CreateTable(
            name,
            str(self._roots[number]),
            [NewField.of(field) for field in SCHEMA],
            ["id"],
            partition_fields=["day"],
            index=NewBucketIndex(IndexType.BLOOM),
            reuse_base_path=True,
            properties={"hudi.publish": "false"},
        )
        self._client.adopt_table(AdoptTable(definition, instants, "adopter", is_published=False))
        self._tables[number] = table = self._client.table(name)
        for time in pending:
            table.create_markers(time, self._markers_at(number, time), writer="adopter")
            self._let_go_markers_of(number, time)
            table.rollback(time, writer="adopter", execute=True)

    def _markers_at(self, number: int, time: str) -> list[Marker]:
        """Markers of all files in the folder whose names have this time."""
        root = self._root(number)
        return [
            Marker(str(path.parent.relative_to(root)), path.name, MarkerKind.CREATE)
            for path in sorted(root.glob(f"day=*/*_{time}.parquet"))
        ]

    def _stray(self) -> None:
        """A file that is no marker in a folder of markers, and one that is no data file beside data files."""
        number = self._random.randrange(2)
        instant = self._instant_of(number)
        self._write(self._root(number) / MARKERS_FOLDER / instant / "notes")
        self._write(self._root(number) / "day=1" / "notes.txt")

    def _link(self) -> None:
        """A linked partition folder, and a linked folder of markers, to the files of others."""
        number = self._random.randrange(2)
        targets = [self._outside, self._root(1 - number) / "day=1"]
        target = self._random.choice([candidate for candidate in targets if candidate.is_dir()])
        for at in (
            self._root(number) / "linked",
            self._root(number) / MARKERS_FOLDER / self._instant_of(number),
        ):
            if not at.exists() and not at.is_symlink():
                at.parent.mkdir(parents=True, exist_ok=True)
                at.symlink_to(target)

    def _steal_the_claim(self) -> None:
        """Another metastore has claimed the folder: everything in it is safe from now on."""
        number = self._random.randrange(2)
        (self._root(number) / ".hoodie").mkdir(exist_ok=True)
        path = self._root(number) / claims.PATH
        path.unlink(missing_ok=True)
        path.write_bytes(msgspec.json.encode(FOREIGN))
        self._claimed_by_stranger.add(number)
        # The metastore of another may need these files.
        files = [path for path in self._root(number).rglob("*") if path.is_file() and not path.is_symlink()]
        self._safe |= {path for path in files if not path.is_relative_to(self._root(number) / claims.PATH)}

    def _attack(self) -> None:
        """Ask the guard itself to delete anything, in the name of any instant."""
        number = self._random.randrange(2)
        by, files_of = self._instant_of(number), self._instant_of(number)
        deleting = Deleting(
            by, self._random.choice([by, files_of, None]), self._random.choice([None, "writer-0"])
        )
        paths = [self._any_path(number, by) for _ in range(6)]
        guard = self._tables[number]._location.guard
        self._may_go(number, deleting, paths)
        list(guard.delete(deleting, paths))

    def _attack_by_rollback(self) -> None:
        """Name files of others in a rollback."""
        number, write, markers = self._taken()
        self._let_go_markers(number, write)
        if number not in self._claimed_by_stranger:
            self._safe -= {self._root(number) / marker.path for marker in markers}
        self._over.append((number, write))
        named = [self._any_path(number, write.requested_time) for _ in range(4)]
        self._tables[number].rollback(
            write.requested_time, writer=write.instant.writer, files_to_delete=named, execute=True
        )

    def _attack_by_reports(self) -> None:
        """Report files of any instant as deleted, so that the sweep deletes them again."""
        number = self._random.randrange(2)
        table = self._tables[number]
        for _ in range(3):
            by = self._instant_of(number)
            with contextlib.suppress(errors.ChronolakeError):
                table.write(by).report_deletions([file_at(self._any_path(number, by))])
        table.sweep(grace_seconds=0)

    def _may_go(self, number: int, deleting: Deleting, paths: list[str]) -> None:
        """The files that may be deleted: markers of the instant, and files of the caller's pending write."""
        if number in self._claimed_by_stranger:
            return
        folder = f"{MARKERS_FOLDER}/{deleting.files_of}/"
        markers = {path for path in paths if path.startswith(folder) and path.endswith(".marker.CREATE")}
        own = {
            file.path
            for at, write, marked in self._pending
            for file in marked
            if at == number and write.requested_time == deleting.by == deleting.files_of
            if write.instant.writer == deleting.writer
        }
        self._safe -= {self._root(number) / path for path in markers | (own & set(paths))}

    def _any_path(self, number: int, instant: str) -> str:
        other = self._roots[1 - number].name
        known = [path for path in self._safe if path.is_relative_to(self._root(number))]
        own = [str(path.relative_to(self._root(number))) for path in known]
        name = base_file_name(bucket_file_id(self._random.randrange(BUCKETS)), "0-0-0", instant)
        outside = [f"../outside/{path.name}" for path in self._outside.iterdir()]
        beside = [f"../{other}/{path.relative_to(self._root(1 - number))}" for path in self._others(number)]
        linked = [f"linked/{path.name}" for path in (*self._outside.iterdir(), *self._others(number))]
        odd = [
            f"day=1/../day=2/{name}",
            f"day=1//{name}",
            f"/{name}",
            f"%2e%2e/outside/{name}",
            f"day=1/{name}",
        ]
        odd += [f"{MARKERS_FOLDER}/{instant}/notes", f"{MARKERS_FOLDER}/{instant}/day=1/{name}.marker.CREATE"]
        return self._random.choice([*own, *own, *outside, *beside, *linked, *odd])

    def _check(self) -> None:
        for path in self._safe:
            if path.is_symlink() or not path.is_file() or path.read_bytes() not in (b"", _content(path)):
                raise SafeFileGone(str(path.relative_to(self._folder)))

    def _let_go_markers(self, number: int, write: chronolake.Write) -> None:
        self._let_go_markers_of(number, write.requested_time)

    def _let_go_markers_of(self, number: int, time: str) -> None:
        if number not in self._claimed_by_stranger:
            self._safe -= self._markers_of(number, time)

    def _markers_of(self, number: int, time: str) -> set[Path]:
        folder = self._root(number) / MARKERS_FOLDER / time
        return {path for path in self._safe if path.is_relative_to(folder) and path.suffix == ".CREATE"}

    def _is_published(self, number: int, path: Path) -> bool:
        times = {write.requested_time for at, write in self._over if at == number}
        return path.is_relative_to(self._root(number)) and any(
            path.name.endswith(f"_{time}.parquet") for time in times
        )

    def _taken(self) -> tuple[int, chronolake.Write, list[Marker]]:
        if not self._pending:
            self._begin()
        return self._pending.pop(self._random.randrange(len(self._pending)))

    def _instant_of(self, number: int) -> str:
        times = [write.requested_time for at, write in self._over if at == number]
        times += [write.requested_time for at, write, _ in self._pending if at == number]
        return self._random.choice(times or ["20260101000000000"])

    def _others(self, number: int) -> list[Path]:
        return [path for path in self._safe if path.is_relative_to(self._root(1 - number))]

    def _made(self, name: str, number: int) -> chronolake.Table:
        root = self._roots[number]
        root.mkdir(parents=True, exist_ok=True)
        table = self._client.create_table(
            name,
            base_path=str(root),
            schema=SCHEMA,
            record_key_fields=["id"],
            partition_fields=["day"],
            reuse_base_path=True,
        )
        with contextlib.suppress(errors.StorageFailed):
            table.claim_storage()
        return table

    def _root(self, number: int) -> Path:
        return self._roots[number]

    def _write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_content(path))
        self._safe.add(path)


def _after(time: str) -> str:
    return format_time(Micros(parse_time(time) + 1_000))


def _content(path: Path) -> bytes:
    return path.name.encode()
