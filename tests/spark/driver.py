"""A Spark driver in a process of its own, which a test may kill: ``python -m tests.spark.driver <job>``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from pyspark.sql import functions as sf

import chronolake
import chronolake_spark
from chronolake_spark.write import shuffles
from tests import processes
from tests.processes import wait_until
from tests.spark import crashes, faults


class Job(msgspec.Struct, frozen=True):
    """Give all records of a table the price 2, while each attempt meets a fault; wait for a sign at the end.

    With a ``crash_point`` the write meets the fault there (``crashes``). A ``statement`` is one of SQL, in the
    session's catalog ``lake``.
    """

    url: str
    table: str
    records: int
    fault: str
    master: str = "local[2]"
    settings: dict[str, str] = {}
    ends_after: str = ""
    crash_point: str = ""
    statement: str = ""


class Driver:
    """The process of a job, with all that it starts."""

    def __init__(self, job: Job, log: Path, repository: Path) -> None:
        self._log = log
        text = msgspec.json.encode(job).decode()
        with log.open("wb") as out:
            # With the repository as its working directory, so that its workers find the tests too.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, text], cwd=repository, stdout=out, stderr=out
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9: the Python driver first, then its JVM and the workers."""
        processes.kill(self._process)

    def runs(self) -> bool:
        """Whether it has not ended; fails when it failed."""
        code = self._process.poll()
        assert code in (None, 0), self._log.read_text()
        return code is None


def main(job: Job) -> None:
    """Run the job."""
    spark = chronolake_spark.session(
        "driver", url=job.url, master=job.master, memory="512m", settings=job.settings
    )
    # Small as they are, these writes have several tasks.
    shuffles.SMALL_BYTES = 0
    with chronolake.connect(job.url) as client:
        table = chronolake_spark.table(spark, job.table, client=client)
        if job.statement:
            # The process of the catalog registers its data source at its first write: the crash comes after it.
            spark.sql(f"INSERT INTO lake.{job.table} SELECT * FROM lake.{job.table} WHERE false")
        if job.crash_point:
            crashes.register(spark, job.crash_point, getattr(crashes, job.fault))
        else:
            spark.dataSource.register(faults.source_with(getattr(faults, job.fault)))
        frame = spark.range(job.records).withColumn("price", sf.lit(2))
        if job.statement:
            spark.sql(job.statement)
        else:
            table.upsert(frame)
        sign = faults.signals(table.definition.base_path) / job.ends_after
        wait_until(sign.exists)
    spark.stop()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Job))
