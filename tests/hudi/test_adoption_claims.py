"""Adopting a folder that has a claim: it is refused before anything is changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake_storage import claims
from chronolake_storage.claims import Claim
from tests.hudi.stored_tables import unpacked


def claim(folder: Path, metastore_id: str, table_id: str = "another") -> None:
    """Claim a folder for a table."""
    (folder / ".hoodie").mkdir(exist_ok=True)
    content = Claim(claims.FORMAT_VERSION, metastore_id, table_id, "other.orders", "2026-11-22T00:00:00+00:00")
    (folder / claims.PATH).write_bytes(msgspec.json.encode(content))


def refusal(client: chronolake.Client, options: Options, *, dry_run: bool) -> str:
    """Why a table is not adopted; there is no table then."""
    with pytest.raises(CannotAdopt) as refused:
        adopting.adopt(client, options, dry_run=dry_run)
    with pytest.raises(chronolake.errors.TableNotFound):
        client.table(options.name)
    return "\n".join(refused.value.reasons)


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_claim_of_another_metastore_is_refused(
    client: chronolake.Client, namespace: str, tmp_path: Path, dry_run: bool
) -> None:
    path = unpacked("cow9", tmp_path)
    claim(path, "another")
    options = Options(name=f"{namespace}.orders", base_path=str(path), reuse_base_path=True)

    assert "is claimed by the table other.orders" in refusal(client, options, dry_run=dry_run)


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_claim_of_a_table_whose_folder_is_not_taken_over_is_refused(
    client: chronolake.Client, namespace: str, tmp_path: Path, dry_run: bool
) -> None:
    path = unpacked("cow9", tmp_path)
    table = client.create_table(
        f"{namespace}.other",
        base_path=str(tmp_path / "other"),
        schema=[chronolake.Field("id", "bigint")],
        record_key_fields=["id"],
    )
    claim(path, table.definition.metastore_id, table.definition.table_id)
    options = Options(name=f"{namespace}.adopted", base_path=str(path), reuse_base_path=True)

    assert "is claimed by the table other.orders" in refusal(client, options, dry_run=dry_run)


@pytest.mark.parametrize("reuse", [True, False])
def test_the_claim_of_another_metastore_above_the_folder_is_refused(
    client: chronolake.Client, namespace: str, tmp_path: Path, reuse: bool
) -> None:
    path = unpacked("cow9", tmp_path)
    claim(path.parent, "another")
    options = Options(name=f"{namespace}.orders", base_path=str(path), reuse_base_path=reuse)

    assert "lies in a claimed folder" in refusal(client, options, dry_run=False)


def test_a_claim_is_named_with_the_other_reasons(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("pending8", tmp_path)
    claim(path, "another")
    reasons = refusal(client, Options(name=f"{namespace}.orders", base_path=str(path)), dry_run=True)

    assert "--roll-back-pending" in reasons
    assert "--reuse-base-path" in reasons


def test_the_claim_of_a_dropped_table_is_taken_over(
    client: chronolake.Client, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpacked("cow9", tmp_path)
    options = Options(name=f"{namespace}.orders", base_path=str(path), reuse_base_path=True)
    releasing.release(client, adopting.adopt(client, options).table)

    assert adopting.adopt(client, options, dry_run=True).table_id is None
    with monkeypatch.context() as killed:
        killed.setattr(adopting, "_take_folder", _die)
        with pytest.raises(KeyboardInterrupt):
            adopting.adopt(client, options)
    # The claim is still that of the dropped table; a second run continues.
    adopted = adopting.adopt(client, options)
    assert adopted.table_id is not None
    assert adopted.table_id in (path / claims.PATH).read_text()


def _die(*_: object) -> None:
    raise KeyboardInterrupt
