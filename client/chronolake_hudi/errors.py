"""Errors of the formats.

HudiFormatError
├── DamagedFile         a file of a Hudi table is cut off, or its content is not that of such a file
└── UnsupportedFormat   a file or a table is sound, but of a form that is not read or written here
"""

from __future__ import annotations

from typing_extensions import override


class HudiFormatError(Exception):
    """A file of a Hudi table cannot be read or written. ``path`` names the file, ``advice`` says what to do."""

    def __init__(self, path: str, problem: str, advice: str) -> None:
        super().__init__(path, problem, advice)
        self.path = path
        self.problem = problem
        self.advice = advice

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.advice}"


class DamagedFile(HudiFormatError):
    """The file is empty, cut off, or its content is not that of such a file."""


class UnsupportedFormat(HudiFormatError):
    """The file or the table is of a version or a kind that is not supported."""
