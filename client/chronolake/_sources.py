"""Where a client's settings come from: its arguments, a profile, and the variables of the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx
import msgspec

from chronolake import _credentials, _oauth, _profiles
from chronolake._access import NAMES, ClientCredentials, ServerAccess, access_of
from chronolake._credentials import Token
from chronolake_model.environment import PREFIX, PROFILE_VARIABLE, TOKEN_VARIABLE

_URL_DEFAULT: Final = "http://127.0.0.1:7077"


class AccessSource(msgspec.Struct, frozen=True):
    """The settings of one source. ``token`` is a secret, so ``access`` is without it."""

    access: ServerAccess
    token: str | None = None

    @property
    def identifies(self) -> bool:
        """Whether it has a token, or says where one is."""
        return self.token is not None or self.access.token_file is not None or self.access.oauth is not None

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return f"<AccessSource {self.access}>"


class ResolvedAccess(msgspec.Struct, frozen=True):
    """The settings that a client uses. ``passed_on`` are those for other processes of the same job."""

    url: str
    token: httpx.Auth | None
    trusted: ssl.SSLContext | bool
    passed_on: ServerAccess


def given_by(
    url: str | ServerAccess | None,
    token_file: str | os.PathLike[str] | None,
    ca_file: str | os.PathLike[str] | None,
    oauth: ClientCredentials | None,
    token: str | None,
) -> AccessSource:
    """The arguments of a client as a source. Raises ``ValueError``."""
    if isinstance(url, ServerAccess):
        if (token_file, ca_file, oauth, token) != (None, None, None, None):
            raise ValueError("a ServerAccess has all settings of a server: give no others with it")
        access = url
    else:
        access = ServerAccess(url or None, _text(token_file), _text(ca_file), oauth)
    _credentials.refuse_in_url(access.url or "")
    return AccessSource(access, token)


def settings_of(given: AccessSource, profile: str | None) -> ResolvedAccess:
    """The settings of a client: those that are given, of ``profile``, of variables, of $CHRONOLAKE_PROFILE.

    Each setting is that of the first source that has it, and the identity is one setting. A profile is of one
    server: its token goes to no other. Other processes get what was given; they have variables of their own.
    Raises ``ValueError``.
    """
    _refuse_two_identities(given)
    explicit = [given] if profile is None else [given, _fitting(profile, given)]
    variables = _of_variables()
    sources = [*explicit, variables]
    if profile is None and (name := os.environ.get(PROFILE_VARIABLE)):
        chosen = AccessSource(_profiles.read(name))
        url = given.access.url or variables.access.url
        if url is None or _is_same(url, chosen.access.url):
            sources.append(chosen)
    url = _url_in(sources) or _URL_DEFAULT
    _credentials.refuse_in_url(url)
    ca_file = _ca_file_in(sources)
    identity = _identity_in(sources)
    return ResolvedAccess(
        url,
        _token_of(url, identity, ca_file),
        _credentials.trust(url, ca_file),
        msgspec.structs.replace(_identity_in(explicit).access, url=url, ca_file=_ca_file_in(explicit)),
    )


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _refuse_two_identities(given: AccessSource) -> None:
    identities = (given.token, given.access.token_file, given.access.oauth)
    if sum(identity is not None for identity in identities) > 1:
        raise ValueError("give one of token, token_file and oauth, and not two")


def _fitting(profile: str, given: AccessSource) -> AccessSource:
    """The profile, which must be of the server that is given, if one is."""
    chosen = AccessSource(_profiles.read(profile))
    if given.access.url is not None and not _is_same(given.access.url, chosen.access.url):
        raise ValueError(
            f"the profile {profile!r} is of {chosen.access.url}, and its token goes to no other server: "
            f"leave out the profile, or the URL {given.access.url}"
        )
    return chosen


def _of_variables() -> AccessSource:
    settings = {name: value for name in NAMES if (value := os.environ.get(_variable(name)))}
    return AccessSource(access_of(settings, _variable), os.environ.get(TOKEN_VARIABLE) or None)


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _is_same(url: str, other: str | None) -> bool:
    return other is not None and url.rstrip("/") == other.rstrip("/")


def _url_in(sources: Sequence[AccessSource]) -> str | None:
    return next((source.access.url for source in sources if source.access.url), None)


def _ca_file_in(sources: Sequence[AccessSource]) -> str | None:
    return next((source.access.ca_file for source in sources if source.access.ca_file), None)


def _identity_in(sources: Sequence[AccessSource]) -> AccessSource:
    return next((source for source in sources if source.identifies), AccessSource(ServerAccess()))


def _token_of(url: str, identity: AccessSource, ca_file: str | None) -> httpx.Auth | None:
    if not identity.identifies:
        return None
    _credentials.refuse_plain_http(url, "a token")
    match identity:
        case AccessSource(token=str(text)):
            return Token(text, None)
        case AccessSource(access=ServerAccess(token_file=str(file))):
            return Token(None, Path(file).expanduser())
        case _:
            assert identity.access.oauth is not None
            return _oauth.token_of(identity.access.oauth, ca_file)
