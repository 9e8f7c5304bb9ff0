"""Tables whose publishers are killed at every file that they write, remove or report."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

import chronolake
from chronolake import Action, Operation
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_storage import publishing
from tests.fix_stores import Store
from tests.published import PublishedTable, Row, read_by_hudi, row, sorted_rows
from tests.server.publication.dying_publisher import Request

_SCRIPT: Final = "tests.server.publication.dying_publisher"
_ROOT: Final = Path(__file__).parents[3]

State = list[Row] | None
"""The rows that readers see; None while they find no table."""


class Publishers:
    """Publishers that die, one after the other."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def is_killed(self, request: Request) -> bool:
        """Publish; whether the publisher was killed before it had published all."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request).decode() + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -9), code
        return code == -9


class StoredTable(PublishedTable):
    """A table in any store. Its rows are remembered as they are written."""

    def __init__(self, client: chronolake.Client, store: Store, folder: Path) -> None:
        self.store = store
        self.url = client.url
        self._rows_of: dict[str, list[Row]] = {}
        store.open().make_folder()
        super().__init__(client, folder, base_path=store.base_path)

    @override
    def _file(
        self, requested_time: str, partition: str, file_id: str, name: str, rows: Sequence[Row]
    ) -> chronolake.WriteStat:
        content = pa.BufferOutputStream()
        pq.write_table(self._table(requested_time, partition, name, rows), content)
        body = content.getvalue().to_pybytes()
        path = f"{partition}/{name}"
        self.store.files().put(path, body)
        self._rows_of[path] = [*rows]
        return chronolake.WriteStat(
            partition_path=partition,
            file_id=file_id,
            file_name=name,
            size_bytes=len(body),
            records=len(rows),
            inserts=len(rows),
        )

    @override
    def rows(self) -> list[Row]:
        slices = self.table.snapshot().slices
        files = [part.base_file.path for part in slices if part.base_file is not None]
        return sorted_rows([row for path in files for row in self._rows_of[path]])

    def seen(self) -> State:
        """What hudi-rs sees."""
        [size_bytes] = self.store.files().sizes([publishing.PROPERTIES_PATH])
        if size_bytes is None:
            return None
        return read_by_hudi(self.store.base_path, hudi_options(self.store))


def hudi_options(store: Store) -> dict[str, str]:
    """The options of a store as hudi-rs takes them."""
    if store.options is None:
        return {}
    return {
        "AWS_ENDPOINT_URL": store.options["endpoint_override"],
        "AWS_ACCESS_KEY_ID": store.options["access_key"],
        "AWS_SECRET_ACCESS_KEY": store.options["secret_key"],
        "AWS_REGION": store.options["region"],
        "AWS_ALLOW_HTTP": "true",
    }


def actions(table: StoredTable) -> Iterator[list[State]]:
    """Changes of a table, each with the states that readers may see from then on, in their order."""
    yield [None, []]
    table.write(row(1), row(2, day="b"))
    yield [[], table.rows()]
    before = table.rows()
    table.write(row(1, name="y"), row(3))
    table.write(row(4, day="c"), bucket=1)
    states: list[State] = [before, sorted_rows([row(1, name="y"), row(3), row(2, day="b")]), table.rows()]
    yield states
    table.table.clean(retain_commits=1)
    yield [table.rows()]
    savepoint = table.table.savepoint()
    saved = table.rows()
    yield [saved]
    table.write(row(5), bucket=2)
    first = table.rows()
    with table.table.begin(action=Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE) as write:
        for stat in table.files(write.requested_time, [row(7)], generation=1):
            write.add(stat)
        write.replace(FileGroupName("day=a", bucket_file_id(0)))
    second = table.rows()
    yield [saved, first, second]
    table.table.restore(savepoint.requested_time)
    yield [second, first, saved]
    table.table.release_savepoint(savepoint.requested_time)
    table.table.alter(set={"hudi.publish": "false"})
    table.write(row(9), bucket=3)
    yield [saved, None]
    table.table.alter(unset=["hudi.publish"])
    # It is hidden until all of it is there again.
    yield [None, table.rows()]


def kill_at_every_file(
    make: Callable[[], StoredTable],
    kills: int,
    expire_lease: Callable[[StoredTable], Any],
    look: Callable[[StoredTable, State], Any] = lambda *_: None,
    *,
    every: int = 1,
) -> int:
    """Kill publishers so many times or more; gives how often. ``look`` is called with each state that was read.

    Each run dies ``every`` so many operations later than the run before, until one comes to its end. After each
    death readers see one of the states that the table had, and none that they have seen the end of.
    """
    killed = 0
    with Publishers() as publishers:
        while killed < kills:
            table = make()
            for states in actions(table):
                place = 0
                for kill_at in itertools.count(1, every):
                    # Every other publisher is a new one, which also checks what is there.
                    request = Request(
                        table.url,
                        table.table.name,
                        table.store.options,
                        f"publisher-{killed // 2}",
                        kill_at,
                    )
                    is_killed = publishers.is_killed(request)
                    seen = table.seen()
                    assert seen in states[place:], (kill_at, seen, states)
                    place += states[place:].index(seen)
                    look(table, seen)
                    if not is_killed:
                        break
                    killed += 1
                    expire_lease(table)
                assert place == len(states) - 1
    return killed
