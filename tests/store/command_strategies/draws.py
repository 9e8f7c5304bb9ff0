"""The inputs of the strategies: the model of each table, the wall clock, and the choices of an example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.results import AnyResult
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import Action, State, TableType, Touch, Yields
from tests.store.model import Timeline
from tests.store.model_of_instants import SECOND, Group, Instant, Refusals

BUCKETS: Final = 2


class Kind(msgspec.Struct, frozen=True):
    """The parameters of a new table."""

    type: TableType
    tick: Tick = Tick.MILLISECOND
    yields: Yields = Yields.TABLE_SERVICE


KINDS: Final = {
    "shop.orders": Kind(TableType.COPY_ON_WRITE),
    "shop.clicks": Kind(TableType.MERGE_ON_READ),
    "shop.giving_way": Kind(TableType.MERGE_ON_READ, yields=Yields.WRITER),
    "shop.fast": Kind(TableType.COPY_ON_WRITE, tick=Tick.MICROSECOND),
}


_Choice = TypeVar("_Choice")

WRITERS: Final = ("one", "two", "three")
LEASE_SECONDS: Final = 60


@dataclass(frozen=True)
class DrawnCommand:
    """A command, the codes with which the server may refuse it now, and how an answer changes the model."""

    command: Command
    refusals: Callable[[], Refusals]
    apply: Callable[[AnyResult], None]


@dataclass(frozen=True)
class Draws:
    """The choices of one command at ``now``; ``active`` are the tables of the example."""

    data: DataObject
    timelines: dict[str, Timeline]
    active: Sequence[str]
    now: int

    def usually(self) -> bool:
        """Whether the command makes sense in this respect."""
        return self.data.draw(st.integers(0, 7)) < 7

    def pick(self, choices: Sequence[_Choice]) -> _Choice:
        return self.data.draw(st.sampled_from(choices))

    def subset(self, choices: Sequence[_Choice], at_least: int) -> list[_Choice]:
        if not choices:
            return []
        return self.data.draw(st.lists(st.sampled_from(choices), unique=True, min_size=at_least))

    def instant(self, name: str, is_fit: Callable[[Instant], bool]) -> int:
        """The requested time of an instant of a table, usually one that is fit."""
        instants = self.timelines[name].instants
        fit = [time for time, instant in instants.items() if is_fit(instant)]
        return self.pick(fit if fit and self.usually() else [*instants])

    def writer_of(self, name: str, time: int) -> str:
        """Usually the instant's own writer."""
        return self.timelines[name].instants[time].writer if self.usually() else self.pick(WRITERS)

    def lease_end(self, seconds: int) -> int:
        return self.now + seconds * SECOND

    def inflight(self, action: Action, time: int, target: int | None, writer: str) -> Instant:
        """An instant that the server has begun at this moment."""
        return Instant(
            time=time,
            action=action,
            state=State.INFLIGHT,
            writer=writer,
            lease_seconds=LEASE_SECONDS,
            lease_end=self.lease_end(LEASE_SECONDS),
            target=target,
        )

    def command(
        self,
        name: str,
        time: int | None,
        command: Command,
        refusals: Callable[[Timeline], Refusals],
        apply: Callable[[AnyResult], None],
    ) -> DrawnCommand:
        """A command on a table, and an instant, that may be gone when the command is executed."""
        return DrawnCommand(
            command,
            lambda: missing(self.timelines, name, time) or refusals(self.timelines[name]),
            apply,
        )


def missing(timelines: dict[str, Timeline], name: str, time: int | None) -> Refusals:
    """The refusal of a command whose table or instant does not exist."""
    if name not in timelines:
        return {Code.TABLE_NOT_FOUND: None}
    if time is not None and time not in timelines[name].instants:
        return {Code.INSTANT_NOT_FOUND: None}
    return {}


def group_name(group: Group) -> FileGroupName:
    """The name of a file group."""
    return FileGroupName("", bucket_file_id(*group))


def write_stat(name: str, time: int, how: Touch, group: Group, records: int = 10) -> WriteStat:
    """The file that an instant of a table writes into a file group."""
    file_id, digits = bucket_file_id(*group), format_time(Micros(time), KINDS[name].tick)
    base, log = base_file_name(file_id, "0-0-0", digits), f".{file_id}_{digits}.log.1_0-0-0"
    return WriteStat("", file_id, log if how is Touch.LOG else base, 100, records)
