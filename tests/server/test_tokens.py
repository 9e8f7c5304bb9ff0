"""Tokens: made, verified, rotated, revoked; their secrets are nowhere but with their holders."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import stat
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

from chronolake_metastore import errors
from chronolake_metastore.cli import main
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.subjects import ADMIN, Reason, Subject
from chronolake_metastore.identification import token_keys
from chronolake_metastore.identification.identifier import Identifier
from chronolake_metastore.identification.remembered import key_of
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.identification.token_keys import TokenKeys
from chronolake_metastore.identification.tokens import VERSION_SECONDS, TokenVerifier
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import tokens as store
from chronolake_metastore.store.postgres.engine import Database
from tests.examples import examples
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import database, rest
from tests.server.rest import Json
from tests.store.history import History

ID: Final = "abcdefghij"
KEYS: Final = TokenKeys({"new": b"n" * 32, "old": b"o" * 32})
TOKEN: Final = tokens.text_of(ID, b"\x01" * tokens.SECRET_BYTES)
OTHER: Final = tokens.text_of(ID, b"\x02" * tokens.SECRET_BYTES)
ResultT = TypeVar("ResultT")


def digest(text: str, key_id: str = "new") -> str:
    made = KEYS.digest(key_id, text)
    assert made is not None
    return made


# The text


@settings(max_examples=examples(50), deadline=None)
@given(st.binary(min_size=tokens.ID_BYTES, max_size=tokens.ID_BYTES), st.binary(min_size=32, max_size=32))
def test_a_token_has_its_id_and_a_checksum(id_bytes: bytes, secret: bytes) -> None:
    token_id = tokens.new_id(id_bytes)
    text = tokens.text_of(token_id, secret)

    assert tokens.id_in(text) == token_id
    assert tokens.id_in(text[:-1] + ("0" if text[-1] != "0" else "1")) is None
    assert tokens.id_in(f"{text}\n") is None


def test_two_secrets_make_two_tokens() -> None:
    assert TOKEN != OTHER
    assert len(TOKEN) == len(OTHER) == 64


# Keys


def test_the_keys_of_an_embedded_database_are_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    of_folder = Settings(data_dir=tmp_path / "lake")
    path = token_keys.file_of(of_folder)

    assert path is not None
    before = token_keys.read(path)
    assert token_keys.file_of(of_folder) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_keys.read(path).first_id == before.first_id


def test_an_interrupted_write_leaves_no_file_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(errors.ConfigurationError, match="No space left"):
        token_keys.file_of(Settings(data_dir=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "c2hvcnQ=", "no base64!", "\u00e9"])
def test_weak_or_malformed_keys_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(errors.ConfigurationError, match="openssl rand"):
        token_keys.read(tmp_path / "keys")


# Verification


class Verified:
    """A verifier over a database, whose clocks the test moves."""

    def __init__(self, dsn: str) -> None:
        self.database = Database(Settings(dsn=dsn))
        self.clock, self.wall_clock = 0.0, 0.0
        self.verifier = TokenVerifier(self.database, KEYS, lambda: self.clock, lambda: self.wall_clock)

    async def reason(self, text: str) -> Reason | None:
        """Why a token is refused; None if it is accepted. What is known without a read is the same."""
        known = self.verifier.known(key_of(text))
        try:
            subject = await self.verifier.identify(text)
        except errors.Unauthenticated as exc:
            assert known is None
            return Reason(exc.reason)
        assert subject == Subject(f"token:{ID}", True, ID)
        assert {known, self.verifier.known(key_of(text))} <= {None, subject}
        return None


def verify(dsn: str, use: Callable[[Verified], Awaitable[ResultT]]) -> ResultT:
    async def run() -> ResultT:
        verified = Verified(dsn)
        try:
            return await use(verified)
        finally:
            await verified.database.close()

    return asyncio.run(run())


@pytest.fixture
def owner(dsn: str) -> Iterator[History]:
    """A history with a token that ends after an hour."""
    with History(dsn, role="none") as history:
        history.done(tokens.CreateToken(ID, "new", digest(TOKEN), True, 3_600))
        yield history


def test_only_the_token_itself_is_accepted(owner: History) -> None:
    unknown = tokens.text_of("bbbbbbbbbb", b"\x01" * 32)
    expected = {
        TOKEN: None,
        OTHER: Reason.WRONG_SECRET,
        unknown: Reason.UNKNOWN_TOKEN,
        "clk_x": Reason.UNKNOWN_TOKEN,
    }

    async def use(verified: Verified) -> dict[str, Reason | None]:
        return {text: await verified.reason(text) for text in expected}

    assert verify(owner.dsn, use) == expected


def test_a_token_ends_with_its_time(owner: History) -> None:
    async def use(verified: Verified) -> list[Reason | None]:
        token = await store.get(verified.database, ID)
        assert token is not None and token.expires_at is not None
        reasons = []
        for seconds in (-1, 1):
            verified.wall_clock = token.expires_at / 1_000_000 + seconds
            reasons.append(await verified.reason(TOKEN))
        return reasons

    assert verify(owner.dsn, use) == [None, Reason.EXPIRED]


def test_a_rotation_keeps_the_former_secret_for_a_time(owner: History) -> None:
    owner.done(tokens.RotateToken(ID, "old", digest(OTHER, "old"), 60))

    async def use(verified: Verified) -> list[Reason | None]:
        token = await store.get(verified.database, ID)
        assert token is not None and token.previous is not None and token.previous.until is not None
        verified.wall_clock = token.previous.until / 1_000_000 - 1
        reasons = [await verified.reason(OTHER), await verified.reason(TOKEN)]
        verified.wall_clock += 2
        return [*reasons, await verified.reason(OTHER), await verified.reason(TOKEN)]

    assert verify(owner.dsn, use) == [None, None, None, Reason.EXPIRED]


def test_a_revoked_token_is_refused_when_the_version_is_read_again(owner: History) -> None:
    async def use(verified: Verified) -> list[Reason | None]:
        reasons = [await verified.reason(TOKEN)]
        await asyncio.to_thread(owner.done, tokens.RevokeToken(ID))
        verified.clock += VERSION_SECONDS
        return [*reasons, await verified.reason(TOKEN)]

    assert verify(owner.dsn, use) == [None, Reason.REVOKED]


def test_the_secret_of_the_admin_is_the_admin_although_it_is_a_known_token(
    owner: History, tmp_path: Path
) -> None:
    async def use(verified: Verified) -> list[Subject | None]:
        found = []
        for secret in (OTHER, TOKEN):
            (tmp_path / "admin").write_text(secret)
            identifier = Identifier(SecretFile(tmp_path / "admin"), verified.verifier)
            found += [await identifier.identify(TOKEN), identifier.known(TOKEN)]
        return found

    subject = Subject(f"token:{ID}", True, ID)
    assert verify(owner.dsn, use) == [subject, subject, ADMIN, None]


def test_a_version_in_use_is_read_again_before_it_is_old(
    owner: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronolake_metastore.identification.tokens.AHEAD_SECONDS", 0.0)

    async def use(verified: Verified) -> list[Reason | None]:
        reasons = [await verified.reason(TOKEN)]
        await asyncio.to_thread(owner.done, tokens.RevokeToken(ID))
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            reading = group.create_task(verified.verifier.run())
            while verified.verifier.known(key_of(TOKEN)):  # noqa: ASYNC110 - nothing tells that it was read
                await asyncio.sleep(0)
            reading.cancel()
        return [*reasons, await verified.reason(TOKEN)]

    assert verify(owner.dsn, use) == [None, Reason.REVOKED]


def test_a_token_that_is_revoked_while_it_is_verified_is_not_remembered(
    owner: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(verified: Verified) -> list[Reason | None]:
        async def get(of: Database, token_id: str) -> tokens.StoredToken | None:
            monkeypatch.undo()
            before = await store.get(of, token_id)
            await asyncio.to_thread(owner.done, tokens.RevokeToken(ID))
            verified.clock += VERSION_SECONDS
            assert await verified.reason(OTHER) is Reason.REVOKED
            return before

        reasons = [await verified.reason(TOKEN)]
        await asyncio.to_thread(owner.done, tokens.RotateToken(ID, "new", digest(OTHER), 60))
        verified.clock += VERSION_SECONDS
        monkeypatch.setattr("chronolake_metastore.store.tokens.get", get)
        return [*reasons, await verified.reason(TOKEN), await verified.reason(TOKEN)]

    assert verify(owner.dsn, use) == [None, None, Reason.REVOKED]


def test_a_caller_is_identified_while_reads_hold_all_connections(owner: History) -> None:
    async def use(verified: Verified) -> Reason | None:
        async with contextlib.AsyncExitStack() as reads:
            for _ in range(Settings().pool_size):
                await reads.enter_async_context(verified.database.reading())
            return await verified.reason(TOKEN)

    assert verify(owner.dsn, use) is None


def test_a_known_caller_does_not_wait_for_strangers(owner: History, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(verified: Verified) -> list[Reason | None]:
        reasons = [await verified.reason(TOKEN)]
        await asyncio.to_thread(owner.done, tokens.RotateToken(ID, "old", digest(OTHER, "old"), 60))
        verified.clock += VERSION_SECONDS
        asked: list[str] = []
        is_asked, may_answer = asyncio.Event(), asyncio.Event()
        of_database = store.get

        async def get(of: Database, token_id: str) -> tokens.StoredToken | None:
            asked.append(token_id)
            is_asked.set()
            if token_id != ID:
                await may_answer.wait()
            return await of_database(of, token_id)

        monkeypatch.setattr("chronolake_metastore.store.tokens.get", get)
        unknown = [tokens.text_of(letter * 10, b"\x01" * 32) for letter in "bcdef"]
        async with asyncio.TaskGroup() as group:
            strangers = [group.create_task(verified.reason(text)) for text in unknown]
            await is_asked.wait()
            reasons.append(await verified.reason(TOKEN))
            may_answer.set()
        assert asked[:2] == ["b" * 10, ID]
        return [*reasons, *{task.result() for task in strangers}]

    assert verify(owner.dsn, use) == [None, None, Reason.UNKNOWN_TOKEN]


def test_all_that_wait_for_a_read_share_its_failure(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(verified: Verified) -> tuple[int, set[type]]:
        reads = 0

        async def version(_: Database) -> int:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0)
            raise errors.DatabaseUnavailable("no database")

        monkeypatch.setattr("chronolake_metastore.store.tokens.version", version)
        failures = await asyncio.gather(
            *(verified.verifier.identify(TOKEN) for _ in range(20)), return_exceptions=True
        )
        return reads, {type(failure) for failure in failures}

    assert verify(dsn, use) == (1, {errors.DatabaseUnavailable})


def test_further_callers_are_refused_while_too_many_wait(
    owner: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronolake_metastore.identification.tokens.WAITING_MAX", 2)
    unknown = [tokens.text_of(letter * 10, b"\x01" * 32) for letter in "bcdef"]

    async def use(verified: Verified) -> list[str]:
        await verified.reason(TOKEN)
        refused = await asyncio.gather(
            *(verified.verifier.identify(text) for text in unknown), return_exceptions=True
        )
        return [type(failure).__name__ for failure in refused]

    assert verify(owner.dsn, use) == ["Unauthenticated"] * 3 + ["DatabaseUnavailable"] * 2


# The command line


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_bytes(base64.b64encode(b"k" * 32))
    return path


@pytest.fixture(autouse=True)
def logs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process leave its log as it is, which other tests read."""
    monkeypatch.setattr("chronolake_metastore.telemetry.configure", lambda *_: None)


@pytest.fixture
def command(dsn: str, key_file: Path) -> Callable[..., Any]:
    """Runs a command of tokens, and gives the document that it prints."""

    def run(name: str, *arguments: str) -> Any:
        keys = () if name in ("list", "revoke", "add") else ("--token-key-file", str(key_file))
        noun = "grants" if name == "add" else "token"
        ended = CliRunner().invoke(main.app, [noun, name, *arguments, "--json", "--dsn", dsn, *keys])
        assert ended.exit_code == 0, (ended.output, ended.exception)
        return json.loads(ended.stdout)

    return run


def test_the_commands_may_run_again(command: Callable[..., Any]) -> None:
    made = command("create", "etl")
    again = command("create", "etl")
    revoked = command("revoke", "etl")

    assert (again["id"], again["token"]) == (made["id"], None)
    assert tokens.id_in(made["token"]) == made["id"]
    assert command("revoke", made["id"])["revoked"] == revoked["revoked"]
    other = command("create", "etl")
    assert [token["id"] for token in command("list")["tokens"]] == [made["id"], other["id"]]


def test_lists_show_rotations_and_the_names_of_tokens(command: Callable[..., Any], dsn: str) -> None:
    made = command("create", "etl")
    command("rotate", "etl")
    assert command("list")["tokens"][0]["previous_until"] > made["created"]
    command("add", "etl", "reader", "*")
    listed = CliRunner().invoke(main.app, ["grants", "list", "--dsn", dsn]).stdout
    assert listed.startswith(f"token:{made['id']} (etl)  reader  *")


def test_a_role_on_a_table_that_does_not_exist_is_one_line_for_the_operator(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["grants", "add", "token:aaaaaaaaaa", "reader", "shop.nothing", "--dsn", dsn]
    monkeypatch.setattr("sys.argv", ["chronolake-metastore", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main.main()
    said = capsys.readouterr().err
    assert said.startswith("chronolake-metastore: there is no table 'shop.nothing'")
    assert said.count("\n") == 1


def test_a_token_after_those_that_are_listed_can_be_revoked(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LISTED_MAX", 1)
    command("create", "first")
    by_id, by_name = command("create", "etl"), command("create", "job")

    assert command("create", "job")["token"] is None
    assert command("revoke", by_id["id"])["revoked"]
    assert command("revoke", "job")["id"] == by_name["id"]


def test_a_token_in_a_file_is_on_no_terminal(command: Callable[..., Any], tmp_path: Path) -> None:
    made = command("create", "etl", "--to", str(tmp_path / "token"))
    first = (tmp_path / "token").read_text().strip()
    command("rotate", "etl", "--to", str(tmp_path / "token"))

    assert made["token"] is None
    assert tokens.id_in(first) == tokens.id_in((tmp_path / "token").read_text().strip()) == made["id"]
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize("to", ["nowhere/token", "."])
def test_no_token_is_made_for_a_file_that_cannot_be_written(
    command: Callable[..., Any], dsn: str, key_file: Path, to: str
) -> None:
    path = str(key_file.parent / to)
    keys = ("--token-key-file", str(key_file))
    ended = CliRunner().invoke(main.app, ["token", "create", "etl", "--to", path, "--dsn", dsn, *keys])

    assert isinstance(ended.exception, errors.ConfigurationError)
    assert command("list")["tokens"] == []


@pytest.mark.parametrize(
    ("arguments", "advice"), [(["create", "etl"], "openssl rand"), (["revoke", "nobody"], "token list")]
)
def test_an_error_of_the_commands_says_what_to_do(dsn: str, arguments: list[str], advice: str) -> None:
    ended = CliRunner().invoke(main.app, ["token", *arguments, "--dsn", dsn])
    assert isinstance(ended.exception, errors.ConfigurationError)
    assert advice in str(ended.exception)


# A server


def test_a_token_opens_a_server_and_leaves_no_trace_but_its_id(
    new_server: Callable[..., ServerProcess], dsn: str, key_file: Path, command: Callable[..., Any]
) -> None:
    made, other = command("create", "etl"), command("create", "gateway", "--acts-for-others")
    for name in ("etl", "gateway"):
        command("add", name, "admin", "*")
    flags = (
        "--access",
        "on",
        "--token-key-file",
        str(key_file),
        "--log-level",
        "debug",
        "--request-log",
        "info",
    )
    server = new_server(dsn, *flags)
    seen = []
    with httpx.Client(base_url=server.url, verify=False) as http:
        bearer = {"authorization": f"Bearer {made['token']}"}
        rest.succeeded(http.post("/v1/namespaces", json={"name": "a"}, headers=bearer))
        refused = http.post("/v1/namespaces", json={"name": "a"}, headers=bearer)
        forbidden = http.get("/v1/tables", headers=bearer | {"chronolake-actor": "ann"})
        acting = {"authorization": f"Bearer {other['token']}", "chronolake-actor": "ann"}
        rest.succeeded(http.post("/v1/namespaces", json={"name": "b"}, headers=acting))
        events: list[Json] = rest.succeeded(http.get("/v1/events", headers=bearer))["events"]
        command("revoke", "etl")
        wait_until(lambda: http.get("/v1/tables", headers=bearer).status_code == HTTPStatus.UNAUTHORIZED)
        stranger = http.get("/v1/tables", headers=bearer | {"authorization": f"Bearer {made['token']}x"})
        seen += [refused.text, forbidden.text, stranger.text, json.dumps(events), http.get("/ready").text]

    assert (refused.status_code, forbidden.status_code) == (HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN)
    subjects = [f"token:{made['id']}", f"token:{other['id']}/ann"]
    assert [event["actor"] for event in events if event["type"] == "NamespaceCreated"] == subjects
    audited = database.query(dsn, "SELECT type, name, actor FROM chronolake.audit_tokens ORDER BY version")
    assert [(row["type"], row["name"]) for row in audited] == [
        ("TokenCreated", "etl"),
        ("TokenCreated", "gateway"),
        ("TokenRevoked", "etl"),
    ]
    assert {row["actor"].partition("/")[0] for row in audited} == {"server"}
    for table in ("event", "outcome", "refusal", "token", "token_name", "audit_commands", "audit_tokens"):
        seen.append(str(database.query(dsn, f"SELECT t::text FROM chronolake.{table} t")))
    everything = "\n".join([*seen, server.log()])
    for token in (made, other):
        assert token["token"][-49:] not in everything
        assert token["id"] in everything


@pytest.mark.slow
def test_a_stream_of_events_ends_when_its_token_is_revoked(
    new_server: Callable[..., ServerProcess], dsn: str, key_file: Path, command: Callable[..., Any]
) -> None:
    made = command("create", "follower")
    server = new_server(dsn, "--access", "on", "--token-key-file", str(key_file))
    bearer = {"authorization": f"Bearer {made['token']}"}
    with (
        httpx.Client(base_url=server.url, headers=bearer, verify=False, timeout=60) as http,
        http.stream("GET", "/v1/events/stream") as stream,
    ):
        command("revoke", "follower")
        with pytest.raises(httpx.RemoteProtocolError):
            list(stream.iter_bytes())
    assert "Traceback" not in server.log()
    assert "a stream was cut off" in server.log()
