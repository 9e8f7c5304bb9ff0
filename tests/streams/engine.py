"""A simulated streaming engine: tasks, checkpoints, a network that fails, and processes that are killed.

It is one loop without threads: in each step one process does one thing, as a random number says, so a seed
gives the same schedule each time. The source is a number of splits; a record is a split and its offset. A task
owns some of the splits. It writes what it reads into files, and reports them to a coordinator.

A message may be lost on its way there or back, and then it is sent again under the same key. It may also
arrive late: when its sender has been killed and another one has taken over.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from chronolake_model import streams as wire
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.streams import NO_CHECKPOINT

Record = tuple[int, int]
"""A split of the source, and the offset of a record in it."""


class Refused(Exception):
    """The coordinator refused a request; ``code`` says why."""

    def __init__(self, code: str, context: dict[str, Any] | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.context = context or {}


class Lost(Exception):
    """A request, or its answer, was lost."""


class Coordinator(Protocol):
    """The coordinator of streams as an engine uses it: each request has an idempotency key."""

    def open(self, key: str, body: wire.OpenStream) -> wire.Stream:
        """Open the stream."""

    def instant(self, key: str, body: wire.RequestInstant) -> str:
        """The requested time of a checkpoint's instant."""

    def mark(self, requested_time: str, file_name: str) -> None:
        """Create the marker of a log file in the bucket 0."""

    def report(self, key: str, body: wire.ReportWriteMetadata) -> None:
        """Report files."""

    def complete(self, key: str, body: wire.CompleteCheckpoints) -> None:
        """Acknowledge a checkpoint."""

    def restart(self, key: str, body: wire.RestartTask) -> int:
        """Restart a task alone; gives its attempt."""

    def delete(self, requested_time: str, file_names: list[str]) -> None:
        """Report marked files as deleted."""

    def visible(self) -> list[tuple[int, str, list[str]]]:
        """The completed instants in their order: checkpoint, requested time, and names of files."""

    def listed(self) -> set[str]:
        """The names of files that a pending rollback has to delete."""


@dataclass
class Faults:
    """How often a fault happens: once in this number of steps, or messages."""

    lost: int = 12
    late: int = 15
    task_killed: int = 60
    job_killed: int = 120
    aborted: int = 40


@dataclass
class Task:
    """A task of the job: what it has read, and what it has not reported yet."""

    name: str
    splits: dict[int, int]
    """The next offset of each of its splits."""
    barrier: int = NO_CHECKPOINT
    attempt: int = 0
    unflushed: list[Record] = field(default_factory=list)
    instant: str | None = None
    to_report: list[WriteStat] = field(default_factory=list)
    has_ended: bool = False


@dataclass
class State:
    """The state of a completed checkpoint: the next offset of each split."""

    number: int
    offsets: dict[int, int]


Late = tuple[Callable[[], object], str]
"""A message that arrives later, and what it is."""


class Engine:
    """One schedule. If it ``is_ahead``, its tasks name a checkpoint by the last one that completed: wrongly."""

    def __init__(
        self,
        coordinator: Coordinator,
        seed: int,
        *,
        splits: int = 4,
        records: int = 12,
        faults: Faults | None = None,
        is_ahead: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self._coordinator = coordinator
        self._faults = faults or Faults()
        self._splits, self._records = splits, records
        self._is_ahead = is_ahead
        self._numbers = 0
        self._files: dict[str, list[Record]] = {}
        """The content of the storage: the records of each file."""
        self._states = [State(0, dict.fromkeys(range(splits), 0))]
        """The completed checkpoints, which survive everything."""
        self._next = 1
        """The id of the next checkpoint; ids are never given twice."""
        self._late: list[Late] = []
        self._checked: tuple[list[tuple[int, str, list[str]]], int] = [], 0
        self._start(None)

    def _start(self, restored: int | None) -> None:
        """Start the job, with another number of tasks, from a completed checkpoint or from the beginning."""
        number = self.random.randint(1, self._splits)
        body = wire.OpenStream(f"job{self._number()}", tasks=number, restored_checkpoint=restored)
        self._epoch = self._insist(lambda key: self._coordinator.open(key, body)).epoch
        barrier = NO_CHECKPOINT if restored is None else restored
        offsets = self._states[-1].offsets
        self._tasks = [
            Task(
                str(task),
                {split: offsets[split] for split in range(self._splits) if split % number == task},
                barrier,
            )
            for task in range(number)
        ]
        self._checkpoint: int | None = None
        self._snapshots: dict[str, dict[int, int]] = {}
        self._unacknowledged: list[int] = []
        if restored is not None:
            # The engine's committer sends the acknowledgements of the checkpoint again.
            self._acknowledge(restored, insists=True)

    def run(self, steps: int = 400) -> None:
        """Run until the source is read, everything is acknowledged, and the job is closed."""
        for _ in range(steps):
            self._step()
            self.check()
        self._faults = Faults(lost=0, late=0, task_killed=0, job_killed=0, aborted=0)
        while self._states[-1].offsets != dict.fromkeys(range(self._splits), self._records):
            self._step()
        while self._late:
            self._deliver_late()
        self._acknowledge(self._states[-1].number, insists=True)
        self.check()
        seen = Counter(self._visible_records())
        expected = {(split, offset) for split in range(self._splits) for offset in range(self._records)}
        assert seen == Counter(expected), (
            f"lost {expected - set(seen)}, doubled {[r for r in seen if seen[r] > 1]}"
        )

    def _step(self) -> None:
        if self._happens(self._faults.job_killed):
            self._restart_job()
        elif self._happens(self._faults.task_killed):
            self._restart_task(self.random.choice(self._tasks))
        elif self._late and self.random.random() < 0.1:
            self._deliver_late()
        elif self._unacknowledged and self.random.random() < 0.2:
            self._acknowledge(self._unacknowledged.pop(self.random.randrange(len(self._unacknowledged))))
        elif self._checkpoint is None and self.random.random() < 0.1:
            self._checkpoint, self._next = self._next, self._next + 1
        elif self._checkpoint is not None and self._happens(self._faults.aborted):
            self._abort()
        else:
            self._turn(self.random.choice(self._tasks))

    def _turn(self, task: Task) -> None:
        """One thing that a task does: read a record, flush, or pass a barrier."""
        checkpoint = self._checkpoint
        try:
            if checkpoint is not None and task.barrier < checkpoint and self.random.random() < 0.5:
                self._pass(task, checkpoint)
            elif len(task.unflushed) >= 3 or (task.unflushed and self.random.random() < 0.2):
                self._flush(task)
            else:
                self._read(task)
        except Refused as refused:
            if refused.code not in ("stream-fenced", "instant-rolled-back", "checkpoint-passed"):
                raise
            self._restart_job()
        except Lost:
            # The task does it again in a later turn.
            pass

    def _read(self, task: Task) -> None:
        left = [split for split, offset in task.splits.items() if offset < self._records]
        if left:
            split = self.random.choice(left)
            task.unflushed.append((split, task.splits[split]))
            task.splits[split] += 1

    def _flush(self, task: Task, *, is_last: bool = False) -> None:
        """Write a file of what was read, and report it."""
        if task.unflushed:
            instant = self._instant_of(task)
            name = f".{bucket_file_id(0)}_{instant}.log.1_{self._number()}-0-{task.attempt}"
            self._coordinator.mark(instant, name)
            self._files[name] = list(task.unflushed)
            count = len(task.unflushed)
            task.to_report.append(
                WriteStat("", bucket_file_id(0), name, size_bytes=100, records=count, inserts=count)
            )
            task.unflushed.clear()
        if task.instant is not None and (task.to_report or is_last):
            body = wire.ReportWriteMetadata(
                self._epoch,
                task.name,
                self._key_of(task),
                task.attempt,
                requested_time=task.instant,
                write_stats=list(task.to_report),
                last_batch=is_last,
            )
            self._send(lambda key: self._coordinator.report(key, body), "report")
            task.to_report.clear()
            if self.random.random() < 0.2:
                self._late.append((lambda: self._coordinator.report(self._new_key(), body), "report again"))

    def _instant_of(self, task: Task) -> str:
        if task.instant is None:
            body = wire.RequestInstant(self._epoch, task.name, self._key_of(task), task.attempt)
            task.instant = self._send(lambda key: self._coordinator.instant(key, body), "instant")
        return task.instant

    def _key_of(self, task: Task) -> int:
        return (self._states[-1].number or NO_CHECKPOINT) if self._is_ahead else task.barrier

    def _pass(self, task: Task, checkpoint: int) -> None:
        """Report all, keep the state, and go on after the barrier."""
        self._flush(task, is_last=True)
        self._snapshots[task.name] = dict(task.splits)
        task.barrier, task.instant = checkpoint, None
        if len(self._snapshots) == len(self._tasks):
            offsets = {
                split: offset for snapshot in self._snapshots.values() for split, offset in snapshot.items()
            }
            self._states.append(State(checkpoint, offsets))
            self._unacknowledged.append(checkpoint)
            self._checkpoint, self._snapshots = None, {}

    def _abort(self) -> None:
        """Give a checkpoint up. Tasks that have passed its barrier go on after it."""
        self._checkpoint, self._snapshots = None, {}

    def _acknowledge(self, checkpoint: int, *, insists: bool = False) -> None:
        """Say that a checkpoint is complete; such messages may be lost, doubled and late."""
        body = wire.CompleteCheckpoints(self._epoch, checkpoint)
        send = self._insist if insists else self._once
        while True:
            try:
                send(lambda key: self._coordinator.complete(key, body))
                break
            except Lost:
                return
            except Refused as refused:
                if refused.code == "stream-fenced" and not insists:
                    return
                if refused.code != "unreconciled-markers":
                    raise
                names = [file["file_name"] for file in refused.context["files"]]
                for name in names:
                    self._files.pop(name, None)
                self._coordinator.delete(refused.context["checkpoint_instant"], names)
        if self.random.random() < 0.2:
            self._late.append((lambda: self._coordinator.complete(self._new_key(), body), "acknowledgement"))

    def _restart_job(self) -> None:
        """Kill the job, and restore it from its last checkpoint. Messages under way arrive later."""
        last = self._states[-1].number
        self._start(last or None)
        if last:
            assert set(self._visible_records()) == self._before(self._states[-1]), "restored"

    def _restart_task(self, task: Task) -> None:
        """Kill a task; it begins again at the last checkpoint, and the others go on."""
        state = self._states[-1]
        body = wire.RestartTask(self._epoch, task.name, state.number or None)
        try:
            attempt = self._insist(lambda key: self._coordinator.restart(key, body))
        except Refused:
            self._restart_job()
            return
        place = self._tasks.index(task)
        splits = {split: state.offsets[split] for split in task.splits}
        self._tasks[place] = Task(task.name, splits, state.number or NO_CHECKPOINT, attempt)
        self._abort()

    def _happens(self, one_of: int) -> bool:
        return one_of > 0 and self.random.randrange(one_of) == 0

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _new_key(self) -> str:
        return f"key{self._number()}"

    def _once(self, send: Callable[[str], Any]) -> Any:
        """Send a message once. It may be lost on its way, arrive late, or its answer may be lost."""
        key = self._new_key()
        if self._happens(self._faults.late):
            self._late.append((lambda: send(key), "late"))
            raise Lost
        if self._happens(self._faults.lost):
            if self.random.random() < 0.5:
                send(key)
            raise Lost
        return send(key)

    def _send(self, send: Callable[[str], Any], what: str) -> Any:
        """Send a message until it is answered: again under the same key. Its sender may be killed meanwhile."""
        key = self._new_key()
        if self._happens(self._faults.late):
            # A copy stays on its way.
            self._late.append((lambda: send(key), what))
        if self._happens(self._faults.lost):
            if self.random.random() < 0.5:
                send(key)
            raise Lost
        return send(key)

    def _insist(self, send: Callable[[str], Any]) -> Any:
        key = self._new_key()
        if self._happens(self._faults.lost):
            send(key)
        return send(key)

    def _deliver_late(self) -> None:
        send, _ = self._late.pop(self.random.randrange(len(self._late)))
        try:
            send()
        except Refused as refused:
            assert refused.code != "internal-error"

    def check(self) -> None:
        """The invariants at any moment."""
        instants, states = self._coordinator.visible(), len(self._states)
        if instants is self._checked[0] and states == self._checked[1]:
            return
        self._checked = instants, states
        seen = Counter(self._visible_records())
        doubled = [record for record, times in seen.items() if times > 1]
        assert not doubled, f"doubled {doubled}"
        assert set(seen) <= self._before(self._states[-1]), "visible before its checkpoint was complete"
        numbers = [number for number, _, _ in instants]
        assert numbers == sorted(numbers), "completed out of order"
        times = [time for _, time, _ in instants]
        assert len(times) == len(set(times)), "completed twice"

    def orphans(self) -> set[str]:
        """The files that are neither visible nor on a list to delete."""
        visible = {name for _, _, names in self._coordinator.visible() for name in names}
        return set(self._files) - visible - self._coordinator.listed()

    def _visible_records(self) -> list[Record]:
        return [
            record
            for _, _, names in self._coordinator.visible()
            for name in names
            for record in self._files[name]
        ]

    def _before(self, state: State) -> set[Record]:
        return {(split, offset) for split, end in state.offsets.items() for offset in range(end)}


def encoded(value: object) -> bytes:
    """A body as JSON."""
    return msgspec.json.encode(value)
