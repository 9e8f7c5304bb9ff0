"""The public keys of one issuer, fetched beside requests, and remembered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
from joserfc import jwk
from joserfc.jwk import ECKey, OKPKey, RSAKey

from chronolake_metastore import telemetry
from chronolake_metastore.identification.issuers import Issuer
from chronolake_model import decoding, machine

LIFESPAN_SECONDS: Final = 300.0
"""How often keys are fetched, so also how long a withdrawn one may still count."""
COOLDOWN_SECONDS: Final = 30.0
"""How often an unknown key id, which a stranger may have made up, may cause another request."""
STALE_SECONDS_MAX: Final = 3_600.0
"""How long keys are used while the issuer does not answer: it may have withdrawn one."""
_TIMEOUT_SECONDS: Final = 5.0
_BYTES_MAX: Final = 1024 * 1024
_KEYS_MAX: Final = 100
_DISCOVERY: Final = "/.well-known/openid-configuration"
_REASON_CHARS_MAX: Final = 200
_ASYMMETRIC: Final = ("RSA", "EC", "OKP")

PublicKey = RSAKey | ECKey | OKPKey
_log = telemetry.logger(__name__)


class KeysUnavailable(Exception):
    """The issuer did not answer with keys."""


class IssuerKeys:
    """The keys of one issuer by their ids."""

    def __init__(
        self, issuer: Issuer, http: httpx.AsyncClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._keys: Mapping[str, PublicKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> PublicKey | None:
        """The key with this id. An unknown one is searched at the issuer, once in ``COOLDOWN_SECONDS``."""
        if self._fetched_at is not None and self._clock() - self._fetched_at > STALE_SECONDS_MAX:
            self._keys = {}
        if key_id not in self._keys:
            async with self._fetching:
                is_due = self._tried_at is None or self._clock() - self._tried_at >= COOLDOWN_SECONDS
                if key_id not in self._keys and is_due:
                    await self._try()
        return self._keys.get(key_id)

    async def refresh(self) -> None:
        """Fetch the keys."""
        async with self._fetching:
            await self._try()

    async def _try(self) -> None:
        self._tried_at = self._clock()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                self._keys = await self._fetch()
        # What an issuer publishes is foreign input: no fault in it may end the server that reads it.
        except Exception as exc:
            reason = (str(exc) or type(exc).__name__)[:_REASON_CHARS_MAX]
            _log.warning("the keys of an issuer cannot be fetched", issuer=self._issuer.issuer, reason=reason)
        else:
            self._fetched_at = self._clock()

    async def _fetch(self) -> dict[str, PublicKey]:
        found = (await self._document(await self._jwks_uri())).get("keys")
        if not isinstance(found, list):
            raise KeysUnavailable("the answer has no keys")
        return dict(filter(None, map(_public_key, found[:_KEYS_MAX])))

    async def _jwks_uri(self) -> str:
        if self._issuer.jwks_uri is not None:
            return self._issuer.jwks_uri
        document = await self._document(self._issuer.issuer.rstrip("/") + _DISCOVERY)
        uri = document.get("jwks_uri")
        if (
            document.get("issuer") != self._issuer.issuer
            or not isinstance(uri, str)
            or not machine.is_trustworthy(uri)
        ):
            raise KeysUnavailable("the configuration that it publishes is not that of this issuer")
        return uri

    async def _document(self, url: str) -> dict[str, Any]:
        async with self._http.stream("GET", url) as response:
            if response.status_code != 200:
                raise KeysUnavailable(f"{url} answered {response.status_code}")
            content = b""
            async for part in response.aiter_bytes():
                content += part
                if len(content) > _BYTES_MAX:
                    raise KeysUnavailable(f"{url} answered more than {_BYTES_MAX} bytes")
        return decoding.decode(content, dict[str, Any])


def _public_key(document: Any) -> tuple[str, PublicKey] | None:
    """A key for signatures with its id; None for others, which some issuers publish beside them."""
    if not isinstance(document, dict) or document.get("kty") not in _ASYMMETRIC:
        return None
    key_id = document.get("kid")
    if not isinstance(key_id, str) or document.get("use", "sig") != "sig":
        return None
    try:
        key = jwk.import_key(document)
    # The library raises errors of many kinds for keys that it does not know, such as KeyError for a curve.
    except Exception as exc:
        reason = f"{type(exc).__name__}: {exc}"
        _log.warning("a key of an issuer cannot be used", key_id=key_id, reason=reason[:_REASON_CHARS_MAX])
        return None
    return (key_id, key) if isinstance(key, PublicKey) else None
