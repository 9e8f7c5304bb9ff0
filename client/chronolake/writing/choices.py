"""Arguments that are one of some words: the words, and the refusal of others."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar

OnConflict: TypeAlias = Literal["fail", "retry"]
"""The reaction of a write that lost a conflict."""
Duplicates: TypeAlias = Literal["fail", "drop"]
"""The treatment of keys that exist, by an insert."""
ServicesSwitch: TypeAlias = Literal["on", "off"]
"""Whether a write runs table services afterwards."""
Replayed: TypeAlias = Literal["fail", "skip"]
"""The treatment of a batch that has completed with another plan, by a stream."""

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class Replaces(enum.StrEnum):
    """The file groups that an overwrite replaces."""

    PARTITIONS = "dynamic"
    """The file groups of the partitions that it writes to."""
    TABLE = "all"
    """All file groups of the table."""


def of(name: str, value: object, choices: type[_Choice]) -> _Choice:
    """The choice that the argument ``name`` gives. Raises ``ValueError`` with the nearest one."""
    word(name, value, [str(choice) for choice in choices])
    return choices(str(value))


def replaces(partitions: object) -> Replaces:
    """The choice of an overwrite, which has no default: a wrong guess would delete records.

    Raises ``ValueError``.
    """
    if partitions is None:
        raise ValueError(
            'give partitions: "dynamic" replaces the partitions that the rows are of, "all" the whole table'
        )
    return of("partitions", partitions, Replaces)


def word(name: str, value: object, words: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``words``."""
    if value not in words:
        raise ValueError(refusal(name, str(value), words))


def refusal(name: str, text: str, words: Sequence[str]) -> str:
    """The message for a text that is none of ``words``."""
    import difflib  # noqa: PLC0415  # slow, and for a mistake only

    nearest = difflib.get_close_matches(text.lower(), words, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"{name} is one of {', '.join(words)}, not {text!r}{hint}"
