"""Permits: without one no file is deleted, and each needs the guard's answers to all of its questions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The files that the guard refuses, by path, with the reasons: one field for each question, none optional.

    Only ``chronolake_storage.guard`` makes one; a test searches the source for others.
    """

    by_path_and_name: Mapping[str, str]
    """The path does not lie below the base path, or its name is not that of a file of this kind and instant."""
    by_claims: Mapping[str, str]
    """The file lies in a folder that another table has claimed. The base path itself is claimed by this one."""
    by_need: Mapping[str, str]
    """A table needs the file, by the metastore's answer."""

    def refusal(self, path: str) -> str | None:
        """Why a file may not be deleted; None if it may."""
        return self.by_path_and_name.get(path) or self.by_claims.get(path) or self.by_need.get(path)

    @property
    def refused(self) -> dict[str, str]:
        """All refused files, with the reasons."""
        return {**self.by_need, **self.by_claims, **self.by_path_and_name}


class Permit(msgspec.Struct, frozen=True):
    """The permission to delete one file; it cannot be made for a file that ``answers`` refuse."""

    path: str
    answers: Answers

    def __post_init__(self) -> None:
        reason = self.answers.refusal(self.path)
        if reason is not None:
            raise ValueError(f"{self.path[:200]!r} may not be deleted: {reason}")
