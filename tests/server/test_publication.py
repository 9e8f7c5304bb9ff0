"""Publication: Hudi's readers see what Chronolake's readers see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.published import PUBLISHES, PublishedTable


@pytest.fixture
def table(server: ServerProcess, tmp_path: Path) -> Iterator[PublishedTable]:
    """A copy-on-write table at a server that publishes nothing by itself."""
    with chronolake.connect(server.url) as client:
        yield PublishedTable(client, tmp_path / "lake")


def test_hudi_reads_a_table_that_a_client_published(table: PublishedTable) -> None:
    table.write({"id": 1, "day": "a", "name": "one"}, {"id": 2, "day": "b", "name": "two"})
    table.write({"id": 1, "day": "a", "name": "uno"}, {"id": 3, "day": "a", "name": "three"})

    publication = table.publish()

    assert publication.lag_versions == 0
    assert publication.is_visible
    assert table.hudi_rows() == table.rows() != []


def test_a_server_publishes_by_itself(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, *PUBLISHES)
    with chronolake.connect(server.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        for number in range(3):
            table.write({"id": number, "day": "a", "name": "x"}, bucket=number)
            table.published()
            assert table.hudi_rows() == table.rows()
