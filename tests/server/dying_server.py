"""A server that kills itself at a named point of a plan, or of the clean that it executes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from chronolake_metastore.cli.main import main
from chronolake_metastore.commands.cleans import PlanCleanHandler
from chronolake_metastore.commands.services import PlanServicesHandler
from chronolake_metastore.domain.cleans import PlanClean
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_metastore.domain.services import PlanServices
from chronolake_metastore.service.service import Service
from chronolake_metastore.workers.deleter import Deleter
from chronolake_metastore.workers.files_to_delete import FileDeleter

PLANNING = ("decided", "locked", "recorded")
CLEANING = ("waiting", "taken", "deleted", "reported", "before_complete", "completed")


def die(*_arguments: Any) -> Any:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def meet(point: str) -> None:
    """Let this process die when it comes to the point."""
    replaced: dict[str, list[tuple[type, str, Callable[..., Any]]]] = {
        "decided": [(Service, "execute", around(Service.execute, before=is_plan))],
        "locked": [(PlanServicesHandler, "decide", die), (PlanCleanHandler, "decide", die)],
        "recorded": [(Service, "execute", around(Service.execute, after=is_plan))],
        "waiting": [(Deleter, "_take", die)],
        "taken": [(Deleter, "_execute", die)],
        "deleted": [(FileDeleter, "delete_files", around(FileDeleter.delete_files, after=always))],
        "reported": [(FileDeleter, "report_files", around(FileDeleter.report_files, after=always))],
        "before_complete": [(Deleter, "_submit", around(Deleter._submit, before=is_completion))],
        "completed": [(Deleter, "_submit", around(Deleter._submit, after=is_completion))],
    }
    for owner, name, replacement in replaced[point]:
        setattr(owner, name, replacement)


def around(
    function: Callable[..., Any],
    *,
    before: Callable[..., bool] = lambda *_: False,
    after: Callable[..., bool] = lambda *_: False,
) -> Callable[..., Any]:
    """The function, with death before or after a call whose arguments are those."""

    async def called(*arguments: Any, **options: Any) -> Any:
        if before(*arguments):
            die()
        answer = await function(*arguments, **options)
        if after(*arguments):
            die()
        return answer

    return called


def is_plan(*arguments: Any) -> bool:
    """Whether a command plans services or a clean."""
    return isinstance(arguments[-1], PlanServices | PlanClean)


def is_completion(*arguments: Any) -> bool:
    """Whether a command completes an instant."""
    return isinstance(arguments[-1], CompleteInstant)


def always(*_arguments: Any) -> bool:
    """Each call."""
    return True


if __name__ == "__main__":
    meet(sys.argv.pop(1))
    main()
