"""A Spark cluster on this machine: a master and two workers that take each other for different hosts.

Only so Spark starts speculative attempts: it never runs two attempts of one task on one host.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from chronolake_spark.driver import java
from tests import processes

HOST, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
SIZE = ("--cores", "2", "--memory", "1g")


class Cluster:
    """Its processes, which log into ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self._start("master.Master", HOST, "--port", str(self._port))
        for host in WORKERS:
            work = str(self._folder / host)
            self._start("worker.Worker", host, *SIZE, "--work-dir", work, self.master)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        for process in self._processes:
            processes.kill(process)

    def _start(self, role: str, host: str, *arguments: str) -> None:
        spark = Path(pyspark.__file__).parent
        environment = {**os.environ, "SPARK_HOME": str(spark)}
        if home := java.home():
            environment["JAVA_HOME"] = home
        program = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        with (self._folder / f"{host}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*program, "--host", host, "--webui-port", "0", *arguments],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
