"""Tokens of OpenID Connect: JWTs that a configured issuer has signed for this server (RFC 7519, RFC 8725)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import msgspec
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jws import JWSRegistry

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.identification import remembered
from chronolake_metastore.identification.issuers import Issuer
from chronolake_metastore.identification.jwks import LIFESPAN_SECONDS, IssuerKeys
from chronolake_metastore.identification.remembered import Remembered
from chronolake_model import decoding
from chronolake_model.times import MICROS_PER_SECOND, Micros

LEEWAY_SECONDS: Final = 30
"""How far the clocks of issuer and server may differ."""
REMEMBERED_SECONDS: Final = 60.0
_SUB_CHARS_MAX: Final = 255


class _Signer(msgspec.Struct, frozen=True):
    alias: str
    issuer: Issuer
    keys: IssuerKeys


class _Verified(msgspec.Struct, frozen=True):
    subject: Subject
    until: float


class OidcVerifier:
    """Verifies tokens of some issuers."""

    def __init__(
        self,
        issuers: Mapping[str, Issuer],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        # A redirect could lead anywhere, and a proxy of the environment is not meant for a server.
        self._http = httpx.AsyncClient(follow_redirects=False, trust_env=False)
        self._signers = {
            issuer.issuer: _Signer(alias, issuer, IssuerKeys(issuer, self._http, clock))
            for alias, issuer in issuers.items()
        }
        self._wall_clock = wall_clock
        self._verified: Remembered[_Verified] = Remembered()

    async def run(self) -> None:
        """Fetch the keys of all issuers again and again, until cancelled."""
        try:
            while True:
                await asyncio.gather(*(signer.keys.refresh() for signer in self._signers.values()))
                await asyncio.sleep(LIFESPAN_SECONDS)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def identify(self, token: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``."""
        key, now = remembered.key_of(token), self._wall_clock()
        verified = self._verified.get(key)
        if verified is None or now >= verified.until:
            try:
                verified = await self._verify(token, now)
            except errors.Unauthenticated:
                self._verified.forget(key)
                raise
            self._verified.remember(key, verified)
        return verified.subject

    def known(self, key: bytes) -> Subject | None:
        """The subject of the token with this key, if ``identify`` would give it without verifying it again."""
        verified = self._verified.get(key)
        return None if verified is None or self._wall_clock() >= verified.until else verified.subject

    def remembers(self, token: str) -> bool:
        """Whether a token was verified before."""
        return self._verified.get(remembered.key_of(token)) is not None

    async def _verify(self, token: str, now: float) -> _Verified:
        header, unverified = _unverified(token)
        # Nothing else of the token counts before its signature is verified: no URL or key in it is used.
        issuer = unverified.get("iss")
        signer = self._signers.get(issuer) if isinstance(issuer, str) else None
        if signer is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_ISSUER)
        algorithm, key_id = header.get("alg"), header.get("kid")
        # A token that needs an extension (RFC 7515, section 4.1.11) is refused, because none is known here.
        is_extended = "crit" in header
        if is_extended or algorithm not in signer.issuer.algorithms or not isinstance(key_id, str):
            raise errors.Unauthenticated(Reason.WRONG_SIGNATURE)
        key = await signer.keys.find(key_id)
        if key is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_KEY)
        if key.get("alg") not in (None, algorithm):
            raise errors.Unauthenticated(Reason.WRONG_SIGNATURE)
        # Issuers add headers of their own, such as ``nonce``, which mean nothing here.
        registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        try:
            claims = jwt.decode(token, key, registry=registry).claims
        # A header of the wrong type, which a stranger can send, raises errors of many kinds.
        except Exception as exc:
            raise errors.Unauthenticated(Reason.WRONG_SIGNATURE) from exc
        return _checked(signer, claims, now)


def _checked(signer: _Signer, claims: dict[str, Any], now: float) -> _Verified:
    registry = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": signer.issuer.issuer},
        aud={"essential": True, "values": signer.issuer.audiences},
        exp={"essential": True},
        sub={"essential": True},
    )
    try:
        registry.validate(claims)
    except ExpiredTokenError as exc:
        raise errors.Unauthenticated(Reason.EXPIRED) from exc
    except (JoseError, ValueError, TypeError) as exc:
        raise errors.Unauthenticated(Reason.WRONG_CLAIMS) from exc
    subject = claims["sub"]
    if not subject.isprintable() or len(subject) > _SUB_CHARS_MAX:
        raise errors.Unauthenticated(Reason.WRONG_CLAIMS)
    ends_at = claims["exp"] + LEEWAY_SECONDS
    until = Micros(int(ends_at * MICROS_PER_SECOND))
    return _Verified(
        Subject(f"oidc:{signer.alias}:{subject}", until=until), min(ends_at, now + REMEMBERED_SECONDS)
    )


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, before anything is verified; raises ``Unauthenticated``."""
    if token.count(".") != 2:
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
    header, claims, _ = token.split(".")
    return _segment(header), _segment(claims)


def _segment(text: str) -> dict[str, Any]:
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return decoding.decode(content, dict[str, Any])
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError) as exc:
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN) from exc
