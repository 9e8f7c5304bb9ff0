"""How a client reaches a server: settings with the same names in variables, profiles and options of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

_OAUTH: Final = "oauth_"
_OAUTH_NEEDED: Final = ("oauth_client_id", "oauth_client_secret_file", "oauth_token_url")
NAMES: Final = ("url", "token_file", "ca_file", *_OAUTH_NEEDED, "oauth_scope", "oauth_audience")
"""The names of the settings. None of them is a secret."""


class ClientCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A client of OAuth 2, which gets its tokens from the ``token_url`` of an OpenID provider.

    A token is renewed after four fifths of its life, and all clients of a process share it. The
    ``client_secret_file`` is read again for each token. ``scope`` and ``audience`` are sent if they are given.
    """

    client_id: str
    client_secret_file: str
    token_url: str
    scope: str | None = None
    audience: str | None = None


class ServerAccess(msgspec.Struct, frozen=True):
    """Where a server is, and which files identify a client there. ``connect`` takes it in place of a URL.

    It has no secret: it may be pickled, and shown in plans. ``url`` is None for the default.
    """

    url: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    oauth: ClientCredentials | None = None

    def settings(self) -> dict[str, str]:
        """The settings by their names in profiles, and as options of Spark."""
        own = {"url": self.url, "token_file": self.token_file, "ca_file": self.ca_file}
        oauth = {} if self.oauth is None else msgspec.structs.asdict(self.oauth)
        named = own | {_OAUTH + name: value for name, value in oauth.items()}
        return {name: value for name, value in named.items() if value is not None}


def access_of(settings: Mapping[str, str], spelled: Callable[[str], str] = str) -> ServerAccess:
    """The access that the settings describe; others in the mapping are ignored.

    ``spelled`` gives the name of a setting for errors. Raises ``ValueError`` for incomplete client credentials.
    """
    oauth = None
    of_oauth = {name.removeprefix(_OAUTH): text for name, text in settings.items() if name.startswith(_OAUTH)}
    if of_oauth:
        if missing := [spelled(name) for name in _OAUTH_NEEDED if name not in settings]:
            raise ValueError(
                f"client credentials need {', '.join(map(spelled, _OAUTH_NEEDED))}; missing: "
                f"{', '.join(missing)}"
            )
        oauth = ClientCredentials(**of_oauth)
    return ServerAccess(settings.get("url"), settings.get("token_file"), settings.get("ca_file"), oauth)
