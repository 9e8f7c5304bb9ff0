"""Errors that the code that reads and writes files finds itself, without the server.

chronolake.errors.ChronolakeError
└── LocalError
    ├── SchemaMismatch        the columns do not fit the table
    ├── BaseFileDamaged       a base file in storage is not as on the timeline
    ├── LogFileDamaged        a log file in storage is not as on the timeline
    └── LogFileUnsupported    a log file has, or would need, a form that is not read or written
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from chronolake.errors import ChronolakeError
from chronolake_model.problems import Problem

_STATUS = 422


class LocalError(ChronolakeError):
    """A failure that the caller can act upon; ``code`` is stable, ``context`` is for programs.

    ``problem`` has the same form as that of an error of the server.
    """

    CODE: ClassVar[str] = "local-error"

    def __init__(self, detail: str, context: Mapping[str, Any] | None = None) -> None:
        title = self.CODE.replace("-", " ").capitalize()
        super().__init__(
            detail, Problem("about:blank", title, _STATUS, self.CODE, detail, context=dict(context or {}))
        )


class SchemaMismatch(LocalError):
    """Rows lack columns of the table, or have others, or of another type; or the table has no such column."""

    CODE = "schema-mismatch"


class BaseFileDamaged(LocalError):
    """A base file is missing in storage, or has another size than the timeline says."""

    CODE = "base-file-damaged"


class LogFileDamaged(LocalError):
    """A log file is missing in storage, has another size than the timeline says, or cannot be read."""

    CODE = "log-file-damaged"


class LogFileUnsupported(LocalError):
    """A log file has blocks that are not read here, or cannot hold what was to be written."""

    CODE = "log-file-unsupported"
