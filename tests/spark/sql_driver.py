"""A driver that runs SQL, which a test may kill: ``python -m tests.spark.sql_driver <statements>``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

import chronolake_spark
from tests import processes

FAULTS = Path(__file__).parent / "faulty_workers"


class Statements(msgspec.Struct, frozen=True):
    """Statements on the catalog ``lake``, of which the processes meet a fault (``statement_faults``).

    At the end they wait for the file ``ends_after``.
    """

    url: str
    texts: list[str]
    fault: str
    master: str = "local[2]"
    settings: dict[str, str] = {}
    ends_after: str = ""


class StatementDriver:
    """The process of the statements, with all that it starts."""

    def __init__(self, statements: Statements, log: Path, repository: Path) -> None:
        self._log = log
        path = os.pathsep.join([str(FAULTS), str(repository)])
        environment = {**os.environ, "PYTHONPATH": path, "STATEMENT_FAULT": statements.fault}
        executors = {
            "spark.executorEnv.PYTHONPATH": path,
            "spark.executorEnv.STATEMENT_FAULT": statements.fault,
        }
        given = msgspec.structs.replace(statements, settings={**executors, **statements.settings})
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, msgspec.json.encode(given).decode()],
                cwd=repository,
                env=environment,
                stdout=out,
                stderr=out,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9: the Python driver first, then its JVM, the catalog's process and the workers."""
        processes.kill(self._process)

    def runs(self) -> bool:
        """Whether it has not ended; fails when it failed."""
        code = self._process.poll()
        assert code in (None, 0), self._log.read_text()
        return code is None


def main(statements: Statements) -> None:
    """Run the statements one after the other."""
    spark = chronolake_spark.session(
        "driver", master=statements.master, memory="512m", settings=statements.settings
    )
    chronolake_spark.catalog(spark, "lake", statements.url)
    for text in statements.texts:
        spark.sql(text)
    if statements.ends_after:
        processes.wait_until(Path(statements.ends_after).exists)
    spark.stop()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Statements))
