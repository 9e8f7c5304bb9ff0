"""The identifier of callers: it asks the source that the form of a token names, and no other one."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import ADMIN, Subject
from chronolake_metastore.errors import Reason
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.settings import Access, Settings

TOKEN_CHARS_MAX = 16 * 1024
"""Longer texts are no tokens, and nothing is computed from them."""


class Identifier:
    """Identifies the callers of one server process."""

    def __init__(self, admin: SecretFile | None) -> None:
        self._admin = admin

    async def identify(self, token: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``."""
        if len(token) > TOKEN_CHARS_MAX:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        if self._admin is not None and await self._admin.holds(token):
            return ADMIN
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)


def of_settings(settings: Settings) -> Identifier | None:
    """The identifier of a server; none while access is off. Raises ``ConfigurationError``."""
    match settings.access:
        case Access.OFF:
            return None
        case Access.ON:
            path = settings.admin_token_file
            return Identifier(None if path is None else SecretFile(path))
