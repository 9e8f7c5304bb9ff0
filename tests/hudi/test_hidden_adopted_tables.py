"""Adopting a table that is not to be published: Hudi's readers find no table any more."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import chronolake
from chronolake import errors
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from chronolake_hudi import properties
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_of_hudi, unpacked
from tests.published import wait_until, wait_until_published


@pytest.mark.parametrize("name", ["cow8", "cow6"])
def test_an_adopted_table_that_is_not_published_is_hidden_until_it_is(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    off = {"hudi.publish": "false"}
    adopted = adopting.adopt(client, Options(name=f"{namespace}.{name}", base_path=str(path), properties=off))
    table = client.table(adopted.table)
    publish_after_others(table)
    wait_until(table, lambda publication: "is hidden" in str(publication.reason))
    assert not (path / properties.PATH).exists()

    table.alter(unset=["hudi.publish"])
    publish_after_others(table)
    assert wait_until_published(table).is_visible
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)


def publish_after_others(table: chronolake.Table) -> None:
    """Publish, unless a server is at it, or was faster."""
    with contextlib.suppress(errors.LeaseLive, errors.NotPublished):
        table.publish()
