"""Each kind of damage of an archive is found by its verification, and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronolake_metastore.archive.rows import INDEXES, INSTANT
from tests.fix_postgres import clone_of
from tests.store import archiving, tampering
from tests.store.archiving import change_manifest, change_rows, forge_run, local


def _change_byte(archive: Path) -> str:
    path = next(archive.glob("runs/*/event.parquet"))
    archiving.flip(path)
    return path.name


def _remove_file(archive: Path) -> str:
    path = next(archive.glob("runs/*/outcome.parquet"))
    path.unlink()
    return path.name


def _remove_description(archive: Path) -> str:
    path = next(archive.glob("runs/*/run.json"))
    path.unlink()
    return path.name


def _drop_run(archive: Path) -> str:
    change_manifest(archive, lambda manifest: manifest["runs"].pop(1))
    return "the digest of the run before it"


def _swap_rows(archive: Path) -> str:
    def swap(run: Path, _: dict[str, Any]) -> None:
        change_rows(run / "event.parquet", "event", lambda found: found.insert(0, found.pop(1)))

    forge_run(archive, 0, swap)
    return "its transaction, or its position"


def _remove_row(table: str) -> Callable[[Path], str]:
    def remove(archive: Path) -> str:
        def forge(run: Path, _: dict[str, Any]) -> None:
            change_rows(run / f"{table}.parquet", table, lambda found: found.pop(0))

        forge_run(archive, 0, forge)
        return ""

    return remove


def _forge_hash(archive: Path) -> str:
    def forge(_: Path, description: dict[str, Any]) -> None:
        description["events"][-1]["hash"] = "00" * 32

    forge_run(archive, 0, forge)
    return "by the rows"


def _forge_checkpoint(table: str) -> Callable[[Path], str]:
    def change(archive: Path) -> str:
        def forge(run: Path, _: dict[str, Any]) -> None:
            def replace(found: list[Any]) -> None:
                found[0] = (*found[0][:-1], bytes(32))

            change_rows(run / f"{table}.parquet", table, replace)

        forge_run(archive, 0, forge)
        return "the hash beside"

    return change


def _forge_index(table: str) -> Callable[[Path], str]:
    def change(archive: Path) -> str:
        def forge(run: Path, _: dict[str, Any]) -> None:
            def replace(found: list[Any]) -> None:
                found[0] = (found[0][0] - 1, *found[0][1:])

            change_rows(run / f"{table}.parquet", table, replace)

        forge_run(archive, 0, forge)
        return f"the index {table}"

    return change


def _forge_instant(name: str, value: object) -> Callable[[Path], str]:
    column = list(INDEXES[INSTANT]).index(name)

    def change(archive: Path) -> str:
        def forge(run: Path, _: dict[str, Any]) -> None:
            def replace(found: list[Any]) -> None:
                found[-1] = (*found[-1][:column], value, *found[-1][column + 1 :])

            change_rows(run / "instant.parquet", "instant", replace)

        forge_run(archive, 0, forge)
        return "the index instant"

    return change


def _repeat_instant(archive: Path) -> str:
    def forge(run: Path, _: dict[str, Any]) -> None:
        change_rows(run / "instant.parquet", "instant", lambda found: found.append(found[-1]))

    forge_run(archive, 0, forge)
    return "the index instant"


def _forge_bounds(archive: Path) -> str:
    def forge(_: Path, description: dict[str, Any]) -> None:
        description["files"][0]["bounds"]["last"][1] += 1

    forge_run(archive, 0, forge)
    return "the bounds of its rows"


def _forge_actor(table: str, column: int) -> Callable[[Path], str]:
    def change(archive: Path) -> str:
        def forge(run: Path, _: dict[str, Any]) -> None:
            def replace(found: list[Any]) -> None:
                found[0] = (*found[0][:column], "mallory", *found[0][column + 1 :])

            change_rows(run / f"{table}.parquet", table, replace)

        forge_run(archive, 0, forge)
        return "by the rows"

    return change


def _empty_manifest(archive: Path) -> str:
    archiving.overwrite(archive / "manifest.json", b"{")
    return "manifest.json"


DAMAGE: dict[str, Callable[[Path], str]] = {
    "changed byte": _change_byte,
    "missing file": _remove_file,
    "missing description": _remove_description,
    "dropped run": _drop_run,
    "swapped rows": _swap_rows,
    "removed event": _remove_row("event"),
    "removed write stat": _remove_row("write_stat"),
    "removed outcome": _remove_row("outcome"),
    "removed refusal": _remove_row("refusal"),
    "forged hash": _forge_hash,
    "forged event": _forge_actor("event", 7),
    "forged outcome": _forge_actor("outcome", 12),
    "forged refusal": _forge_actor("refusal", 5),
    "forged checkpoint of an event": _forge_checkpoint("event"),
    "forged checkpoint of an outcome": _forge_checkpoint("outcome"),
    "forged order": _forge_index("event_order"),
    "forged key": _forge_index("outcome_key"),
    "removed key": _remove_row("outcome_key"),
    "forged time of completion": _forge_instant("completed_at", 1),
    "forged state of an instant": _forge_instant("state", "rolled_back"),
    "forged action of an instant": _forge_instant("begun_as", "clean"),
    "forged last version of an instant": _forge_instant("version", 1_000_000),
    "removed instant": _remove_row("instant"),
    "repeated instant": _repeat_instant,
    "forged bounds": _forge_bounds,
    "unreadable manifest": _empty_manifest,
}


@pytest.fixture(scope="module")
def whole(postgres: str, history_template: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive in several runs of several levels."""
    folder = tmp_path_factory.mktemp("whole") / "archive"
    with clone_of(postgres, history_template) as dsn:
        tampering.fill_tables(dsn)
        archiving.write(dsn, local(folder), 1)
    return folder


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_each_kind_of_damage_is_found_and_named(
    damage: Callable[[Path], str], whole: Path, tmp_path: Path
) -> None:
    pieces = tmp_path / "pieces"
    shutil.copytree(whole, pieces)
    shown = damage(pieces)

    findings = archiving.verify(local(pieces)).findings

    assert any(shown in f"{finding.table}: {finding.what}" for finding in findings), findings
