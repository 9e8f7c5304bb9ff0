"""The vendor of a server: its roles by location, its requests to STS, and the names of sessions.

The numbers are those of faults of other catalogs.
"""

from __future__ import annotations

import asyncio
import string
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from botocore.exceptions import ClientError
from werkzeug.serving import make_server

from chronolake_metastore import errors, vending
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.queries import credentials
from chronolake_metastore.settings import Access, Settings
from chronolake_metastore.vending import StorageRole, Vendor

ROLE = StorageRole(
    "s3://lake/tables/", "arn:aws:iam::123456789012:role/lake", "us-east-1", 900, "http://127.0.0.1:1"
)


def vendor(*roles: StorageRole) -> Vendor:
    return Vendor(roles, lambda: None, lambda *_: None)


def test_the_role_with_the_longest_location_is_taken_and_t41_none_of_a_sibling() -> None:
    inner = StorageRole("s3://lake/tables/shop/", "arn:aws:iam::1:role/shop", "us-east-1")
    chosen = vendor(ROLE, inner)

    assert chosen.role_of("s3://lake/tables/shop/orders/") is inner
    assert chosen.role_of("s3://lake/tables/shop_archive/orders/") is ROLE
    with pytest.raises(errors.CredentialsNotVended):
        chosen.role_of("s3://lake/tables_archive/orders/")


def test_an_sts_that_does_not_answer_is_no_fault_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-access-key-of-the-server")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key-of-the-server")
    with pytest.raises(errors.CredentialsUnavailable) as refused:
        asyncio.run(vendor(ROLE).keys(ROLE, "admin", "{}"))
    assert "of-the-server" not in refused.value.detail

    monkeypatch.setattr(vending, "WAITING_MAX", 0)
    with pytest.raises(errors.Overloaded):
        asyncio.run(vendor(ROLE).keys(ROLE, "admin", "{}"))


@pytest.mark.parametrize("body", ["<html>no STS</html>", "<AssumeRoleResponse/>"])
def test_t47_an_answer_without_keys_is_no_fault_of_the_server(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    def answer(_: object, start: Callable[..., object]) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/xml")])
        return [body.encode()]

    service = make_server("127.0.0.1", 0, answer, threaded=True)
    thread = threading.Thread(target=service.serve_forever)
    thread.start()
    try:
        role = msgspec.structs.replace(ROLE, sts_endpoint=f"http://127.0.0.1:{service.server_port}")
        with pytest.raises(errors.CredentialsUnavailable):
            asyncio.run(vendor(role).keys(role, "admin", "{}"))
    finally:
        service.shutdown()
        thread.join()
        service.server_close()


@pytest.mark.parametrize(
    ("code", "error"),
    [("PackedPolicyTooLarge", errors.CredentialsNotVended), ("AccessDenied", errors.CredentialsUnavailable)],
)
def test_t45_a_policy_that_sts_finds_too_large_is_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch, code: str, error: type[errors.TimelineError]
) -> None:
    class Client:
        def assume_role(self, **_: object) -> None:
            raise ClientError({"Error": {"Code": code, "Message": "arn:aws:sts::1:secret-name"}}, "AssumeRole")

    monkeypatch.setattr(vending, "_client_of", lambda _: Client())
    with pytest.raises(error) as refused:
        asyncio.run(vendor(ROLE).keys(ROLE, "admin", "{}"))
    assert "secret-name" not in refused.value.detail


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "roles"),
        ("[roles]", "must have roles"),
        ("[roles.a]\nlocation = 's3://a/'\nrole_arn = 'arn:x'", "region"),
        ("[roles.a]\nlocation = '/tmp/a'\nrole_arn = 'arn:x'\nregion = 'r'", "s3://bucket"),
        ("[roles.a]\nlocation = 's3://a/../b'\nrole_arn = 'arn:x'\nregion = 'r'", "'..'"),
        ("[roles.a]\nlocation = 's3://a/'\nrole_arn = 'arn:x'\nregion = 'r'\nduration_seconds = 60", "900"),
        ("[roles.a]\nlocation = 's3://a/'\nrole_arn = 'role'\nregion = 'r'", "role_arn"),
        (
            "[roles.a]\nlocation = 's3://a/'\nrole_arn = 'arn:x'\nregion = 'r'\nsts_endpoint = 'http://b'",
            "https",
        ),
        (
            "[roles.a]\nlocation = 's3://a/b'\nrole_arn = 'arn:x'\nregion = 'r'\n"
            "[roles.b]\nlocation = 's3a://A/b/'\nrole_arn = 'arn:y'\nregion = 'r'",
            "another location",
        ),
    ],
)
def test_a_file_that_is_wrong_stops_the_start(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "roles.toml"
    file.write_text(text)
    with pytest.raises(errors.ConfigurationError, match=why):
        vending.of_settings(Settings(credentials_file=file, access=Access.ON), lambda: None, lambda *_: None)


def test_keys_are_not_for_strangers(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="--access on"):
        vending.of_settings(Settings(credentials_file=tmp_path / "roles.toml"), lambda: None, lambda *_: None)


def test_each_subject_has_a_session_name_of_its_own_that_sts_accepts() -> None:
    subjects = [
        "admin",
        "token:a",
        "token=a",
        "oidc:corp:a/b",
        "oidc:corp:a-b",
        "oidc:corp:ä",
        f"oidc:{'x' * 80}",
    ]
    names = [credentials.session_name(Subject(name)) for name in subjects]

    assert names[:2] == ["admin", "token=a"]
    assert len(set(names)) == len(names)
    assert all(
        2 <= len(name) <= 64 and not set(name) - set(string.ascii_letters + string.digits + "_+=,.@-")
        for name in names
    )
