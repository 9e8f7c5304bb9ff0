"""Which worker of pytest-xdist runs which modules."""

from __future__ import annotations

from typing import Final

from typing_extensions import override
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

WITH_SPARK: Final = ("tests/spark/", "tests/docs/test_examples.py")
"""Folders and modules whose tests use the session of their worker."""


class SparkApart(LoadFileScheduling):  # type: ignore[misc]  # xdist is untyped
    """Half of the workers run the modules with Spark, and the others only those without.

    So few workers start a JVM, and tests that wait run beside tests that compute.
    """

    @override
    def _assign_work_unit(self, node: WorkerController) -> None:
        own = [scope for scope in self.workqueue if self._is_for(node, scope)]
        preferred = own or list(self.workqueue)
        self.workqueue.move_to_end(preferred[0], last=False)
        super()._assign_work_unit(node)

    @override
    def _reschedule(self, node: WorkerController) -> None:
        is_needed = self._runs_spark(node) or any(self._is_for(node, scope) for scope in self.workqueue)
        if is_needed or node.shutting_down:
            super()._reschedule(node)
        else:
            node.shutdown()

    def _is_for(self, node: WorkerController, scope: str) -> bool:
        return scope.startswith(WITH_SPARK) is self._runs_spark(node)

    def _runs_spark(self, node: WorkerController) -> bool:
        return node in self.nodes[: max(1, self.numnodes // 2)]
