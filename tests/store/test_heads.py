"""Chain heads kept outside of the database: a log that was cut short, or written anew, shows."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path

import msgspec
import pytest

from chronolake_metastore import errors, object_storage
from chronolake_metastore.domain.heads import Heads, decode, encode
from chronolake_metastore.domain.proof import Check, ProofFinding
from chronolake_metastore.object_storage import Folder
from chronolake_metastore.proof import heads
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import clocks
from tests.fix_stores import Store
from tests.forked_program import run
from tests.store import tampering
from tests.store.tampering import EVENT, ORDERS, failed_checks, tamper

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_DEFAULT_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint_override",
}


def collect(dsn: str) -> Heads:
    """The heads of all logs."""
    return asyncio.run(heads.collect(Settings(dsn=dsn)))


CUT = {(Check.HEAD, "shop.orders", 9), (Check.HEAD, "shop.orders", None)}
"""The findings of ``cut_short``: the last event of the log, and the last outcome."""
SET_BACK = f"""
    UPDATE answer_chain a SET (number, hash) = (
        SELECT o.number, o.hash FROM outcome o WHERE o.chain_id = a.chain_id ORDER BY o.number DESC LIMIT 1
    )
    WHERE a.chain_id = {ORDERS}
"""


def cut_short(dsn: str) -> None:
    """Remove the last two events of shop.orders with all that follows from them, and set its clock back."""
    tamper(
        dsn,
        f"DELETE FROM instant WHERE version = 9 AND table_id = {ORDERS}",
        f"DELETE FROM outcome {EVENT} ANY ('{{8, 9}}')",
        f"DELETE FROM event {EVENT} ANY ('{{8, 9}}')",
        "UPDATE clock SET (version, last_time, hash) = (e.version, e.time, e.hash) FROM event e "
        f"WHERE (clock.table_id, e.table_id, e.version) = ({ORDERS}, {ORDERS}, 7)",
        SET_BACK,
    )


def test_heads_of_a_log_that_only_grew_are_still_in_it(history_dsn: str) -> None:
    documents = [collect(history_dsn)]
    asyncio.run(_grow(history_dsn))
    documents.append(collect(history_dsn))

    report = tampering.verify(history_dsn, documents=documents)

    assert (report.findings, report.documents) == ([], 2)
    assert documents[0].heads != documents[1].heads


async def _grow(dsn: str) -> None:
    longer = tampering.History(dsn, "more")
    await longer.write("shop.orders", 1)
    await longer.close()


def test_a_log_that_was_cut_short_with_its_clock_shows_only_in_the_heads(history_dsn: str) -> None:
    kept = collect(history_dsn)
    cut_short(history_dsn)

    assert failed_checks(history_dsn) == set()
    assert failed_checks(history_dsn, documents=[kept]) == CUT


def test_outcomes_that_were_cut_off_with_the_head_of_their_chain_show_only_in_the_heads(
    history_dsn: str,
) -> None:
    tampering.refuse(history_dsn, "shop.orders", "shop.none")
    kept = collect(history_dsn)
    tamper(
        history_dsn,
        f"DELETE FROM refusal WHERE table_id = {ORDERS}",
        f"DELETE FROM outcome WHERE table_id = {ORDERS} AND code IS NOT NULL",
        SET_BACK,
        "DELETE FROM refusal WHERE table_name = 'shop.none'",
        "DELETE FROM outcome WHERE table_id IS NULL",
        f"DELETE FROM answer_chain WHERE chain_id = '{clocks.chain_of('shop.none')}'",
    )

    assert failed_checks(history_dsn) == set()
    assert failed_checks(history_dsn, documents=[kept]) == {
        (Check.HEAD, "shop.orders", None),
        (Check.HEAD, "(no table)", None),
    }


def test_a_document_from_before_the_chains_of_answers_is_read(history_dsn: str) -> None:
    document = msgspec.structs.replace(collect(history_dsn), schema_version=1, answers=[], digest="")
    unsealed = msgspec.json.encode(document, order="sorted")
    content = encode(msgspec.structs.replace(document, digest=hashlib.sha256(unsealed).hexdigest()))

    old = decode(document.name, content)

    assert b"answers" not in content
    assert tampering.verify(history_dsn, documents=[old]).holds


def test_a_log_whose_end_was_written_anew_shows_only_in_the_heads(history_dsn: str) -> None:
    kept = collect(history_dsn)
    tampering.forge(history_dsn, 9, "mallory")
    tamper(
        history_dsn,
        "UPDATE clock SET hash = e.hash FROM event e "
        f"WHERE (clock.table_id, e.table_id, e.version) = ({ORDERS}, {ORDERS}, 9)",
    )

    assert failed_checks(history_dsn) == set()
    assert failed_checks(history_dsn, documents=[kept]) == {(Check.HEAD, "shop.orders", 9)}


def test_one_table_is_held_to_its_own_heads(history_dsn: str) -> None:
    kept = collect(history_dsn)
    cut_short(history_dsn)

    assert failed_checks(history_dsn, table="shop.clicks", documents=[kept]) == set()
    assert failed_checks(history_dsn, table="shop.orders", documents=[kept]) == CUT


def test_the_heads_are_those_of_the_log_for_any_clocks(history_dsn: str) -> None:
    before = collect(history_dsn)
    tamper(history_dsn, "DELETE FROM clock", "DELETE FROM answer_chain")

    assert (collect(history_dsn).heads, collect(history_dsn).answers) == (before.heads, before.answers)
    assert {head.table for head in before.heads} == {"(catalog)", "shop.orders", "shop.gone", "shop.clicks"}


def test_a_document_reads_back_as_it_was_written(history_dsn: str) -> None:
    document = collect(history_dsn)

    assert decode(document.name, encode(document)) == document


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version": 9', '"version": 8'),
        ('"table": "shop.orders"', '"table": "shop.others"'),
        ('"schema_version": 2', '"schema_version": 3'),
        ('"schema_version": 2', '"schema_version": 1'),
        ('"number": 9', '"number": 8'),
        ("{", "["),
        ('"written_at": "2', '"written_at": "1'),
    ],
)
def test_a_document_that_was_changed_is_a_finding(history_dsn: str, tmp_path: Path, old: str, new: str) -> None:
    document = collect(history_dsn)
    content = encode(document).decode()
    assert old in content
    (tmp_path / document.name).write_text(content.replace(old, new, 1))

    [finding] = heads.read_all(object_storage.open_folder(str(tmp_path)))

    assert isinstance(finding, ProofFinding)
    assert document.name in finding.what
    assert not tampering.verify(history_dsn, documents=[finding]).holds


def test_a_document_under_another_name_is_a_finding(history_dsn: str, tmp_path: Path) -> None:
    (tmp_path / f"heads-{'0' * 20}.json").write_bytes(encode(collect(history_dsn)))

    [finding] = heads.read_all(object_storage.open_folder(str(tmp_path)))

    assert isinstance(finding, ProofFinding)


def test_the_commands_keep_heads_and_hold_the_log_to_them(history_dsn: str, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    kept = run("heads", "--dsn", history_dsn, "--to", str(folder))
    again = run("heads", "--dsn", history_dsn, "--to", folder.as_uri())
    held = run("verify", "--dsn", history_dsn, "--heads", str(folder))
    cut_short(history_dsn)
    cut = run("verify", "--dsn", history_dsn, "--heads", str(folder))

    [first, second] = sorted(path.name for path in folder.iterdir())
    assert (kept.stdout, again.stdout) == (
        f"{first}: the heads of 4 logs\n",
        f"{second}: the heads of 4 logs\n",
    )
    assert json.loads((folder / first).read_text())["schema_version"] == 2
    assert (held.returncode, "2 documents of heads" in held.stdout) == (0, True)
    assert (cut.returncode, cut.stdout.count("shop.orders version 9: head: ")) == (1, 2)


def test_a_folder_without_heads_proves_nothing(history_dsn: str, tmp_path: Path) -> None:
    empty = run("verify", "--dsn", history_dsn, "--heads", str(tmp_path))
    missing = run("verify", "--dsn", history_dsn, "--heads", str(tmp_path / "missing"))

    assert (empty.returncode, missing.returncode) == (2, 2)
    assert "Traceback" not in empty.stderr + missing.stderr


@pytest.fixture
def heads_folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder of this machine, and one in S3."""
    options = store.options or {}
    for name, option in ENVIRONMENT.items():
        monkeypatch.setenv(name, options.get(option, "x"))
    return object_storage.open_folder(store.base_path)


def test_a_created_file_is_listed_and_read(heads_folder: Folder) -> None:
    folder = heads_folder
    folder.create("b", b"two")
    folder.create("a", b"one")

    assert folder.names() == ["a", "b"]
    assert (folder.read("a"), folder.read("b")) == (b"one", b"two")


def test_nothing_is_overwritten(heads_folder: Folder) -> None:
    folder = heads_folder
    folder.create("a", b"one")

    with pytest.raises(errors.ConfigurationError, match="exists already"):
        folder.create("a", b"two")
    assert (folder.names(), folder.read("a")) == (["a"], b"one")


def test_a_missing_file_is_reported(heads_folder: Folder) -> None:
    with pytest.raises(errors.ConfigurationError, match="nothing"):
        heads_folder.read("nothing")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(errors.ConfigurationError, match=r"pip install .chronolake\[storage\]"):
        object_storage.open_folder("s3://lake/heads")


@pytest.mark.parametrize("location", ["nonsense://lake", "s3://"])
def test_a_location_that_makes_no_sense_is_refused(location: str) -> None:
    with pytest.raises(errors.ConfigurationError):
        object_storage.open_folder(location)
