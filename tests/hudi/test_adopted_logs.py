"""Log files of adopted tables: the rows that Hudi read, as of now and as of each of its commits."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import adopting
from chronolake.hudi.history import Options
from tests.hudi.log_rows import rows_by_slices
from tests.hudi.stored_tables import rows_of_hudi, unpacked


def adopted(client: chronolake.Client, namespace: str, path: Path, **options: bool) -> chronolake.Table:
    """The table in a folder, adopted under the name of the folder."""
    wanted = Options(name=f"{namespace}.{path.name}", base_path=str(path), **options)
    return client.table(adopting.adopt(client, wanted).table)


@pytest.mark.parametrize("name", ["mor8", "mor9", "partial9", "logcompacted9"])
def test_rows_in_log_files_are_those_that_hudi_read(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    table = adopted(client, namespace, unpacked(name, tmp_path))
    assert rows_by_slices(table) == rows_of_hudi(name)
