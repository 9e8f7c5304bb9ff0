"""Hudi's Spark bundle for the tests of ``make test-hudi``, in the environment of ``tools/make_hudi_env.py``."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fix_stores import Store
from tests.hudi.stored_tables import COLUMNS, Rows
from tools import make_hudi_env

_ROOT: Final = Path(__file__).parents[2]
_ENVIRONMENT: Final = _ROOT / ".hudi-env"
_SCRIPT: Final = Path(__file__).parent / "spark_session.py"
SCHEMA: Final = "id bigint, name string, price double, day string, ts bigint"


class HudiFailed(Exception):
    """Hudi has refused or failed."""


class HudiSpark:
    """A process with Hudi in a Spark session, which writes to ``log``."""

    def __init__(self, log: Path) -> None:
        python = Path(os.environ.get("HUDI_PYTHON", _ENVIRONMENT / "bin/python"))
        jar = Path(os.environ.get("HUDI_JAR", _ENVIRONMENT / make_hudi_env.BUNDLE_JAR))
        jars = [jar, *(jar.parent / name for name in make_hudi_env.S3_JARS)]
        for path in (python, *jars):
            assert path.exists(), f"{path} is not there: run make test-hudi, or set HUDI_PYTHON and HUDI_JAR"
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [python, _SCRIPT, *jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=log.parent,
            env={**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def reach(self, store: Store) -> None:
        """Reach a store from now on."""
        self._ask({"hadoop": store.hadoop_options})

    def read(self, place: Path | str, where: str = "true", **options: str) -> list[dict[str, Any]]:
        """The records that Hudi reads."""
        return self._ask({"read": _location(place), "where": where, "options": _dotted(options)})

    def rows(self, place: Path | str, where: str = "true", **options: str) -> Rows:
        """The rows that Hudi reads, by id."""
        records = self.read(place, where, **options)
        return sorted(([record[name] for name in COLUMNS] for record in records), key=lambda row: row[1])

    def write(self, place: Path | str, rows: Rows, operation: str = "upsert", **options: str) -> None:
        """Write rows, whose values are in the order of ``COLUMNS``."""
        named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        records = [[row[name] for name in ("id", "name", "price", "day", "ts")] for row in named]
        stated = {"hoodie.datasource.write.operation": operation, **_dotted(options)}
        self._ask({"write": _location(place), "rows": records, "columns": SCHEMA, "options": stated})

    def write_records(self, place: Path | str, columns: str, rows: list[list[Any]], **options: str) -> None:
        """Upsert rows of these columns."""
        self._ask({"write": _location(place), "rows": rows, "columns": columns, "options": _dotted(options)})

    def sql(self, text: str) -> list[dict[str, Any]]:
        """The rows of a statement."""
        return self._ask({"sql": text})

    def may_have(self, text: bytes, type_: str, keys: list[str]) -> list[bool]:
        """For each key whether Hudi finds it in a bloom filter of a footer."""
        answers = self._ask({"filter": text.decode(), "type": type_, "keys": keys})
        return [answer["may_have"] for answer in answers]

    def _ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process has ended"}')
        if isinstance(answer, dict):
            raise HudiFailed(answer["error"])
        assert isinstance(answer, list)
        return answer


def _location(place: Path | str) -> str:
    """Where Hadoop finds a table: it has S3 under a scheme of its own."""
    return re.sub("^s3:", "s3a:", str(place))


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in options.items()}
