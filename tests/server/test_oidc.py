"""Tokens of OpenID Connect: only those that a configured issuer has signed for this server are accepted.

The numbers are those of faults of other servers and libraries.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.identification import issuers
from chronolake_metastore.identification.identifier import Identifier
from chronolake_metastore.identification.issuers import Issuer
from chronolake_metastore.identification.jwks import COOLDOWN_SECONDS, STALE_SECONDS_MAX
from chronolake_metastore.identification.oidc import LEEWAY_SECONDS, REMEMBERED_SECONDS, OidcVerifier
from chronolake_metastore.identification.remembered import key_of
from chronolake_metastore.identification.secret_files import SecretFile

NOW: Final = 1_800_000_000
AUDIENCE: Final = "chronolake"
RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
EC: Final = ECKey.generate_key("P-256", {"kid": "ec"})
STRANGER: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
GIVEN_KEYS: Final[dict[str, Any]] = {"jwk": STRANGER.as_dict(private=False), "x5c": []}
ResultT = TypeVar("ResultT")


class FakeIssuer:
    """An issuer on loopback: what it publishes, and which paths it was asked for."""

    def __init__(self) -> None:
        self.keys: list[Any] = [RSA.as_dict(private=False), EC.as_dict(private=False)]
        self.configuration: dict[str, Any] = {}
        self.asked: list[str] = []
        self.fails = False
        self.redirects_to: str | None = None
        self.answer: bytes | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                document = issuer.configuration if "well-known" in self.path else {"keys": issuer.keys}
                if issuer.redirects_to is None:
                    self.send_response(500 if issuer.fails else 200)
                else:
                    self.send_response(302)
                    self.send_header("Location", issuer.redirects_to)
                self.end_headers()
                self.wfile.write(issuer.answer or json.dumps(document).encode())

            @override
            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def idp() -> Iterator[FakeIssuer]:
    issuer = FakeIssuer()
    yield issuer
    issuer.stop()


class Clocks:
    def __init__(self) -> None:
        self.monotonic, self.wall = 0.0, float(NOW)


def verify(
    idp: FakeIssuer, use: Callable[[OidcVerifier, Clocks], Awaitable[ResultT]], *more: Issuer
) -> ResultT:
    async def run() -> ResultT:
        clocks = Clocks()
        configured = {"corp": Issuer(idp.url, AUDIENCE), **{f"other-{i}": one for i, one in enumerate(more)}}
        verifier = OidcVerifier(configured, lambda: clocks.monotonic, lambda: clocks.wall)
        try:
            return await use(verifier, clocks)
        finally:
            await verifier.close()

    return asyncio.run(run())


async def outcome(verifier: OidcVerifier, token: str) -> str:
    """The subject of a token, or why it is refused."""
    known = verifier.known(key_of(token))
    try:
        subject = await verifier.identify(token)
    except errors.Unauthenticated as exc:
        assert known is None
        return exc.reason
    assert verifier.known(key_of(token)) == subject
    assert known in (None, subject)
    return subject.name


def result(idp: FakeIssuer, token: str) -> str:
    return verify(idp, lambda verifier, _: outcome(verifier, token))


def claims(idp: FakeIssuer, **changed: Any) -> dict[str, Any]:
    """Good claims, but for those that are ``changed``; None leaves a claim out."""
    good = {"iss": idp.url, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 600}
    return {name: value for name, value in (good | changed).items() if value is not None}


def signed(idp: FakeIssuer, key: Any = RSA, algorithm: str = "RS256", **changed: Any) -> str:
    header = {"alg": algorithm, "kid": key.kid, **changed.pop("header", {})}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jwt.encode(header, claims(idp, **changed), key, registry=registry)


def encoded(*parts: bytes) -> str:
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def forged(idp: FakeIssuer, header: dict[str, Any], signature: bytes = b"") -> str:
    return encoded(json.dumps(header).encode(), json.dumps(claims(idp)).encode(), signature)


def signed_as(idp: FakeIssuer, header: dict[str, Any], algorithm: str = "RS256") -> str:
    """A token that the key of the issuer has signed by an algorithm, whatever its header says."""
    signing = forged(idp, header).removesuffix(".")
    signature = jws.JWSRegistry.algorithms[algorithm].sign(signing.encode(), RSA)
    return f"{signing}.{encoded(signature)}"


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_a_token_of_the_issuer_is_accepted(idp: FakeIssuer, key: Any, algorithm: str) -> None:
    assert result(idp, signed(idp, key, algorithm)) == "oidc:corp:ann"


def test_t1_the_issuer_of_an_unverified_token_is_not_asked(idp: FakeIssuer) -> None:
    stranger = FakeIssuer()
    stranger.keys = [STRANGER.as_dict(private=False)]
    try:
        token = signed(idp, STRANGER, iss=stranger.url)
        assert result(idp, token) == Reason.UNKNOWN_ISSUER
        assert stranger.asked == idp.asked == []
    finally:
        stranger.stop()


def test_t1_keys_are_not_fetched_from_where_an_issuer_redirects(idp: FakeIssuer) -> None:
    stranger = FakeIssuer()
    stranger.keys = [STRANGER.as_dict(private=False)]
    idp.redirects_to = f"{stranger.url}/keys"
    try:
        assert result(idp, signed(idp, STRANGER)) == Reason.UNKNOWN_KEY
        assert stranger.asked == []
    finally:
        stranger.stop()


@pytest.mark.parametrize("change", ["{}/", "{}@evil.example", "{}.evil.example", " {}", "{}#", "{}/../"])
def test_t2_an_issuer_is_compared_as_an_exact_text(idp: FakeIssuer, change: str) -> None:
    assert result(idp, signed(idp, iss=change.format(idp.url))) == Reason.UNKNOWN_ISSUER
    assert idp.asked == []


@pytest.mark.parametrize("issuer", [None, 1, ["a"], {}])
def test_t3_a_token_without_its_issuer_is_refused(idp: FakeIssuer, issuer: Any) -> None:
    token = jwt.encode({"alg": "RS256", "kid": "rsa"}, claims(idp, iss=issuer), RSA)
    assert result(idp, token) == Reason.UNKNOWN_ISSUER


@pytest.mark.parametrize(
    ("audience", "accepted"),
    [
        ("other", False),
        (None, False),
        ("", False),
        ([], False),
        (["other"], False),
        ({"a": 1}, False),
        (["x", AUDIENCE], True),
    ],
)
def test_t4_the_audience_must_be_this_server(idp: FakeIssuer, audience: Any, accepted: bool) -> None:
    expected = "oidc:corp:ann" if accepted else Reason.WRONG_CLAIMS
    assert result(idp, signed(idp, aud=audience)) == expected


def test_t5_an_unknown_critical_header_is_refused(idp: FakeIssuer) -> None:
    header = {"alg": "RS256", "kid": "rsa", "x": 1}
    assert result(idp, signed_as(idp, header)) == "oidc:corp:ann"
    assert result(idp, signed_as(idp, header | {"crit": ["x"]})) == Reason.WRONG_SIGNATURE
    unencoded = header | {"crit": ["b64"], "b64": True}
    assert result(idp, signed_as(idp, unencoded)) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("critical", [5, [["x"]], [{}], {"a": 1}, "alg", None, [], ["b64"]])
def test_t5_critical_headers_of_the_wrong_type_are_refused(idp: FakeIssuer, critical: Any) -> None:
    token = signed_as(idp, {"alg": "RS256", "kid": "rsa", "crit": critical})
    assert result(idp, token) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("header", [{"typ": 5}, {"cty": []}, {"kid": "rsa", "b64": "no"}, {"x5c": 5}])
def test_a_header_of_the_wrong_type_is_refused(idp: FakeIssuer, header: dict[str, Any]) -> None:
    assert result(idp, signed_as(idp, {"alg": "RS256", "kid": "rsa"} | header)) == Reason.WRONG_SIGNATURE


def test_a_private_header_of_an_issuer_is_ignored(idp: FakeIssuer) -> None:
    assert result(idp, signed(idp, header={"nonce": "a", "acme": {"a": 1}})) == "oidc:corp:ann"


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
def test_t6_a_key_in_the_token_is_not_used(idp: FakeIssuer, name: str) -> None:
    given = (
        STRANGER.as_dict(private=False) if name == "jwk" else [] if name == "x5c" else "https://evil.example/"
    )
    token = signed(idp, STRANGER, header={name: given})
    assert result(idp, token) == Reason.WRONG_SIGNATURE
    assert [path for path in idp.asked if path != "/keys"] == ["/.well-known/openid-configuration"]


@pytest.mark.parametrize(("declared", "used"), [("RS256", "RS256"), ("RS256", "RS512"), ("RS512", "RS512")])
def test_t7_the_algorithm_of_a_key_must_be_that_of_the_token(idp: FakeIssuer, declared: str, used: str) -> None:
    idp.keys = [RSA.as_dict(private=False) | {"alg": "RS512"}]
    token = signed_as(idp, {"alg": declared, "kid": "rsa"}, used)
    assert result(idp, token) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "RS384", "dir", "", None, 1])
def test_t8_other_algorithms_are_refused(idp: FakeIssuer, algorithm: Any) -> None:
    assert result(idp, forged(idp, {"alg": algorithm, "kid": "rsa"})) == Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256"])
def test_t8_algorithms_that_the_issuer_does_not_use_are_refused(idp: FakeIssuer, algorithm: str) -> None:
    token = signed_as(idp, {"alg": algorithm, "kid": "rsa"}, algorithm)
    assert result(idp, token) == Reason.WRONG_SIGNATURE


def test_t8_a_public_key_is_no_shared_secret(idp: FakeIssuer) -> None:
    header = {"alg": "HS256", "kid": "rsa"}
    signing = forged(idp, header).removesuffix(".")
    signature = hmac.digest(RSA.as_pem(private=False), signing.encode(), "sha256")
    assert result(idp, forged(idp, header, signature)) == Reason.WRONG_SIGNATURE


def test_t8_a_shared_secret_among_the_keys_is_not_used(idp: FakeIssuer) -> None:
    secret = OctKey.generate_key(256, {"kid": "shared"})
    idp.keys.append(secret.as_dict(private=True))
    assert (
        result(idp, jwt.encode({"alg": "HS256", "kid": "shared"}, claims(idp), secret))
        == Reason.WRONG_SIGNATURE
    )


@pytest.mark.parametrize("key_id", ["../../etc/passwd", "' OR 1=1 --", "", None, 1, ["rsa"]])
def test_t8_a_strange_key_id_is_only_looked_up(idp: FakeIssuer, key_id: Any) -> None:
    assert result(idp, forged(idp, {"alg": "RS256", "kid": key_id})) in (
        Reason.UNKNOWN_KEY,
        Reason.WRONG_SIGNATURE,
    )
    assert set(idp.asked) <= {"/.well-known/openid-configuration", "/keys"}


COSTLY: Final = b'{"alg": "PBES2-HS256+A128KW", "enc": "A128CBC-HS256", "p2s": "c2FsdA", "p2c": 2147483647}'


@pytest.mark.parametrize(
    "token",
    [
        *("a.b.c.d.e", "..", "a.b.c", "e30.e30.", "W10.W10.", "a", f"{'W1' * 2_000}.e30."),
        encoded(COSTLY, b"k" * 40, b"i" * 16, b"text", b"t" * 16),
    ],
)
def test_t9_encrypted_and_malformed_tokens_are_refused(idp: FakeIssuer, token: str) -> None:
    assert result(idp, token) in (Reason.UNKNOWN_TOKEN, Reason.UNKNOWN_ISSUER)
    assert idp.asked == []


def test_t10_other_claims_do_not_change_the_subject(idp: FakeIssuer) -> None:
    token = signed(idp, appid="admin", azp="admin", preferred_username="admin", oid="admin")
    assert result(idp, token) == "oidc:corp:ann"


def test_t11_a_token_of_one_source_is_not_given_to_another(idp: FakeIssuer, tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("x" * 40)

    async def use(verifier: OidcVerifier, _: Clocks) -> list[object]:
        identifier = Identifier(SecretFile(tmp_path / "admin"), None, verifier)
        found: list[object] = [await identifier.identify("x" * 40)]
        for token in ("clk_a.b.c", "clk_" + signed(idp)):
            with pytest.raises(errors.Unauthenticated):
                await identifier.identify(token)
        return found

    assert verify(idp, use) == [Subject("admin", may_act_for_others=True)]
    assert idp.asked == []


def test_t13_keys_are_not_fetched_for_each_token(idp: FakeIssuer) -> None:
    async def use(verifier: OidcVerifier, clocks: Clocks) -> None:
        for number in range(5):
            assert await outcome(verifier, signed(idp, sub=str(number))) == f"oidc:corp:{number}"
        unknown = [signed(idp, RSAKey.generate_key(2048, {"kid": f"new-{number}"})) for number in range(2)]
        for token in unknown:
            assert await outcome(verifier, token) == Reason.UNKNOWN_KEY
        assert idp.asked.count("/keys") == 1
        clocks.monotonic += COOLDOWN_SECONDS
        for token in unknown:
            assert await outcome(verifier, token) == Reason.UNKNOWN_KEY
        assert idp.asked.count("/keys") == 2

    verify(idp, use)


def test_a_new_key_is_found_after_the_cooldown_and_a_withdrawn_one_is_lost_at_the_refresh(
    idp: FakeIssuer,
) -> None:
    new = RSAKey.generate_key(2048, {"kid": "new"})

    async def use(verifier: OidcVerifier, clocks: Clocks) -> list[str]:
        found = [await outcome(verifier, signed(idp))]
        idp.keys = [new.as_dict(private=False)]
        clocks.monotonic += COOLDOWN_SECONDS
        clocks.wall += REMEMBERED_SECONDS
        return [*found, await outcome(verifier, signed(idp, new)), await outcome(verifier, signed(idp))]

    assert verify(idp, use) == ["oidc:corp:ann", "oidc:corp:ann", Reason.UNKNOWN_KEY]


def test_keys_outlive_an_outage_of_the_issuer_for_a_time(idp: FakeIssuer) -> None:
    async def use(verifier: OidcVerifier, clocks: Clocks) -> list[str]:
        await outcome(verifier, signed(idp))
        idp.fails = True
        found = []
        for seconds in (STALE_SECONDS_MAX - 1, 2):
            clocks.monotonic += seconds
            found.append(await outcome(verifier, signed(idp, sub=str(seconds), exp=NOW + 10_000)))
        return found

    assert verify(idp, use) == [f"oidc:corp:{STALE_SECONDS_MAX - 1}", Reason.UNKNOWN_KEY]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": None}, Reason.WRONG_CLAIMS),
        ({"exp": "never"}, Reason.WRONG_CLAIMS),
        ({"exp": NOW - LEEWAY_SECONDS - 1}, Reason.EXPIRED),
        ({"nbf": NOW + LEEWAY_SECONDS + 1}, Reason.WRONG_CLAIMS),
        ({"sub": None}, Reason.WRONG_CLAIMS),
        ({"sub": ""}, Reason.WRONG_CLAIMS),
        ({"sub": ["ann"]}, Reason.WRONG_CLAIMS),
        ({"sub": "a\nb"}, Reason.WRONG_CLAIMS),
        ({"sub": "a" * 256}, Reason.WRONG_CLAIMS),
    ],
)
def test_times_and_subject_are_essential(idp: FakeIssuer, changed: dict[str, Any], reason: Reason) -> None:
    assert result(idp, signed(idp, **changed)) == reason


def test_a_remembered_token_still_ends(idp: FakeIssuer) -> None:
    async def use(verifier: OidcVerifier, clocks: Clocks) -> list[str]:
        token = signed(idp, exp=NOW + 10)
        found = [await outcome(verifier, token)]
        clocks.wall += 10 + LEEWAY_SECONDS + 1
        return [*found, await outcome(verifier, token)]

    assert verify(idp, use) == ["oidc:corp:ann", Reason.EXPIRED]


def test_a_configuration_of_another_issuer_is_not_followed(idp: FakeIssuer) -> None:
    idp.configuration["issuer"] = "https://evil.example"
    assert result(idp, signed(idp)) == Reason.UNKNOWN_KEY
    assert idp.asked == ["/.well-known/openid-configuration"]


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "EC", "kid": "bad", "crv": "brainpoolP256r1", "x": "AQ", "y": "AQ"},
        {"kty": "OKP", "kid": "bad", "crv": "unknown", "x": "AQ"},
        {"kty": "EC", "kid": "bad", "crv": ["P-256"], "x": 1, "y": None},
        {"kty": ["RSA"], "kid": "bad"},
        {"kty": "RSA", "kid": "bad", "n": "é", "e": "AQAB"},
    ],
)
def test_a_key_that_cannot_be_used_leaves_the_others_usable(idp: FakeIssuer, key: dict[str, Any]) -> None:
    idp.keys.insert(0, key)
    assert result(idp, signed(idp)) == "oidc:corp:ann"


@pytest.mark.parametrize(
    "answer",
    [
        b'{"keys": [{"kid": "\xff"}]}',
        b'{"keys": ' + b"[" * 100_000,
        b'{"issuer": "%s", "jwks_uri": "https://[x"}',
        b'{"issuer": "%s", "jwks_uri": "https://a:b"}',
        b'{"issuer": "%s", "jwks_uri": "https://a\\u0000"}',
    ],
)
def test_no_answer_of_an_issuer_ends_the_fetching_of_keys(idp: FakeIssuer, answer: bytes) -> None:
    idp.answer = answer.replace(b"%s", idp.url.encode())
    assert result(idp, signed(idp)) == Reason.UNKNOWN_KEY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[issuers]",
        '[issuers.corp]\nissuer = "https://idp.example"',
        '[issuers.corp]\nissuer = "https://idp.example"\naudience = ""',
        '[issuers.corp]\nissuer = "http://idp.example"\naudience = "a"',
        '[issuers.corp]\nissuer = "https://idp.example"\naudience = "a"\njwks_uri = "http://idp.example/keys"',
        '[issuers.corp]\nissuer = "https://idp.example"\naudience = "a"\nalgorithms = ["HS256"]',
        '[issuers.corp]\nissuer = "https://idp.example"\naudience = "a"\nalgorithms = []',
        '[issuers.corp]\nissuer = "https://idp.example"\naudience = "a"\nsecret = "b"',
        '[issuers."a:b"]\nissuer = "https://idp.example"\naudience = "a"',
        '[issuers.corp]\nissuer = "https://[x"\naudience = "a"',
        "not TOML",
    ],
)
def test_a_weak_or_malformed_file_of_issuers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "oidc.toml").write_text(text)
    with pytest.raises(errors.ConfigurationError, match=r"oidc\.toml"):
        issuers.read(tmp_path / "oidc.toml")


def test_a_file_of_issuers_has_each_by_its_alias(tmp_path: Path) -> None:
    (tmp_path / "oidc.toml").write_text('[issuers.corp]\nissuer = "https://idp.example"\naudience = ["a", "b"]')
    assert issuers.read(tmp_path / "oidc.toml") == {"corp": Issuer("https://idp.example", ["a", "b"])}
