"""The issuers of OIDC whose tokens a server accepts, as a TOML file names them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.settings import read_toml
from chronolake_model import machine

ALGORITHMS: Final = ("RS256", "ES256")
KNOWN_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"}
)
"""Signatures with a public key. With a shared key, a verifier could make tokens."""

Alias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}\Z")]


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An issuer. Its ``issuer`` is compared with that of a token as an exact text.

    ``audience`` is the name, or the names, by which its tokens mean this server. Without ``jwks_uri`` the
    issuer is asked for it (OpenID Connect Discovery).
    """

    issuer: str
    audience: str | list[str]
    jwks_uri: str | None = None
    algorithms: tuple[str, ...] = ALGORITHMS

    @property
    def audiences(self) -> list[str]:
        """Its audiences."""
        return [self.audience] if isinstance(self.audience, str) else self.audience


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    issuers: dict[Alias, Issuer]


def read(path: Path) -> dict[str, Issuer]:
    """The issuers in a file by their aliases; raises ``ConfigurationError``."""
    issuers = read_toml(path, _File, "issuers", _FORM).issuers
    for alias, issuer in issuers.items():
        if why := _fault(issuer):
            raise errors.ConfigurationError(f"{path}: issuer {alias}: {why}")
    if len({issuer.issuer for issuer in issuers.values()}) != len(issuers) or not issuers:
        raise errors.ConfigurationError(f"{path} must have issuers, each with another text: {_FORM}")
    return issuers


def _fault(issuer: Issuer) -> str | None:
    for url in (issuer.issuer, issuer.jwks_uri):
        if url is not None and not machine.is_trustworthy(url):
            return f"{url} must be https"
    if not issuer.audiences or not all(issuer.audiences):
        return "it needs an audience, or else tokens for other services would be accepted"
    if unknown := set(issuer.algorithms) - KNOWN_ALGORITHMS:
        return (
            f"unknown algorithms {', '.join(sorted(unknown))}; known are {', '.join(sorted(KNOWN_ALGORITHMS))}"
        )
    return None if issuer.algorithms else "it needs an algorithm"


_FORM: Final = 'write [issuers.<alias>], issuer = "https://...", audience = "..."'
