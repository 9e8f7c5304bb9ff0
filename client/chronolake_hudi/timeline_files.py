"""Names of the files of a timeline.

Layout 2, of table version 8 on, in ``.hoodie/timeline/``::

    <requested>.<action>.requested      <requested>.<action>.inflight      <requested>_<completion>.<action>

Layout 1, of table version 6, in ``.hoodie/``::

    <requested>.<action>.requested      <requested>.<action>.inflight      <requested>.<action>

In both, the inflight file of a commit is ``<requested>.inflight``, and a savepoint has no requested file. A
completed compaction is a commit, a log compaction a deltacommit, a clustering a replacecommit; in layout 1 a
clustering is a replacecommit from the start.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from chronolake_model.vocabulary import Action, State


class Layout(enum.IntEnum):
    """The layout of a timeline (Hudi: TimelineLayoutVersion)."""

    ONE = 1
    TWO = 2

    @property
    def folder(self) -> str:
        """Where the files of the active timeline are, relative to the table's base path."""
        return ".hoodie" if self is Layout.ONE else ".hoodie/timeline"


COMPLETED_AS: Final[Mapping[Action, Action]] = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
"""The action that the completed file of an instant names, where it differs from the pending one."""

_TIME: Final = r"[0-9]{17}|[0-9]{14}"
_COMPLETED: Final = {
    Layout.ONE: re.compile(rf"(?P<requested>{_TIME})\.(?P<action>[a-z]+)"),
    Layout.TWO: re.compile(rf"(?P<requested>{_TIME})_(?P<completion>{_TIME})\.(?P<action>[a-z]+)"),
}
_PENDING: Final = re.compile(rf"(?P<requested>{_TIME})(?:\.(?P<action>[a-z]+))?\.(?P<state>requested|inflight)")


class TimelineFile(msgspec.Struct, frozen=True):
    """A file of a timeline.

    Times are digits: 17, or 14 where an old release of Hudi wrote them. ``action`` is the one that the file
    names: of a completed compaction it is commit. ``completion_time`` is null if the instant is pending, and
    in layout 1.
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None


def completed_action(action: Action) -> Action:
    """The action of the completed file of an instant that was requested as ``action``."""
    return COMPLETED_AS.get(action, action)


def requested_name(requested_time: str, action: Action) -> str:
    """The name, in layout 2, of the requested file. A savepoint has none."""
    assert action is not Action.SAVEPOINT
    return f"{requested_time}.{action}.requested"


def inflight_name(requested_time: str, action: Action) -> str:
    """The name, in layout 2, of the inflight file."""
    return f"{requested_time}.inflight" if action is Action.COMMIT else f"{requested_time}.{action}.inflight"


def completed_name(requested_time: str, completion_time: str, action: Action) -> str:
    """The name, in layout 2, of the completed file of an instant that was requested as ``action``."""
    return f"{requested_time}_{completion_time}.{completed_action(action)}"


def name_of(file: TimelineFile) -> str:
    """The name of a file in layout 2, which ``parse_name`` reads back."""
    match file.state:
        case State.REQUESTED:
            return requested_name(file.requested_time, file.action)
        case State.INFLIGHT:
            return inflight_name(file.requested_time, file.action)
        case State.COMPLETED:
            assert file.completion_time is not None
            return completed_name(file.requested_time, file.completion_time, file.action)
        case State.ROLLED_BACK:
            raise ValueError(f"{file.requested_time} was rolled back: the timeline has no file of it")
        case _:
            assert_never(file.state)


def parse_name(name: str, layout: Layout = Layout.TWO) -> TimelineFile:
    """The parts of a file's name; raises ``ValueError`` when no timeline of this layout has such a file."""
    # Pending first: in layout 1 the inflight file of a commit looks like the completed file of an action.
    if match := _PENDING.fullmatch(name):
        file = TimelineFile(match["requested"], _pending_action(name, match), State(match["state"]))
    elif match := _COMPLETED[layout].fullmatch(name):
        action = _parse_action(name, match["action"])
        completion_time = match["completion"] if layout is Layout.TWO else None
        file = TimelineFile(match["requested"], action, State.COMPLETED, completion_time)
    else:
        raise ValueError(f"{name!r} is not the name of a file of a timeline of layout {layout}")
    if file.state is State.COMPLETED and file.action in COMPLETED_AS:
        raise ValueError(f"{name!r}: a completed {file.action} is named {COMPLETED_AS[file.action]}")
    if file.state is State.REQUESTED and file.action is Action.SAVEPOINT:
        raise ValueError(f"{name!r}: a savepoint has no requested file")
    return file


def _pending_action(name: str, match: re.Match[str]) -> Action:
    # Only a commit leaves its action out, and only when it is inflight; it never states it there.
    states_action = match["action"] is not None
    is_inflight_commit = match["state"] == State.INFLIGHT and match["action"] in (None, Action.COMMIT)
    if states_action == is_inflight_commit:
        raise ValueError(f"{name!r}: only the inflight file of a commit is named without its action")
    return _parse_action(name, match["action"]) if states_action else Action.COMMIT


def _parse_action(name: str, word: str) -> Action:
    try:
        return Action(word)
    except ValueError:
        raise ValueError(f"{name!r}: {word} is no action of a timeline") from None
