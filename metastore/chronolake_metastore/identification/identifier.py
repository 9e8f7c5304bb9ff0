"""The identifier of callers: it asks the source that the form of a token names, and no other one."""

from __future__ import annotations

from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import ADMIN, Subject
from chronolake_metastore.domain.tokens import PREFIX
from chronolake_metastore.errors import Reason
from chronolake_metastore.identification import token_keys
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.identification.tokens import TokenVerifier
from chronolake_metastore.settings import Access, Settings
from chronolake_metastore.store.postgres.engine import Database

TOKEN_CHARS_MAX: Final = 16 * 1024
"""Longer texts are no tokens, and nothing is computed from them."""


class Identifier:
    """Identifies the callers of one server process."""

    def __init__(self, admin: SecretFile | None = None, tokens: TokenVerifier | None = None) -> None:
        self._admin = admin
        self._tokens = tokens

    async def identify(self, token: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``, and ``DatabaseUnavailable``."""
        if len(token) > TOKEN_CHARS_MAX:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        # First, because it works without a database.
        if self._admin is not None and await self._admin.holds(token):
            return ADMIN
        if token.startswith(PREFIX) and self._tokens is not None:
            return await self._tokens.identify(token)
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)


def of_settings(settings: Settings, database: Database) -> Identifier | None:
    """The identifier of a server; none while access is off. Raises ``ConfigurationError``."""
    match settings.access:
        case Access.OFF:
            return None
        case Access.ON:
            admin, keys = settings.admin_token_file, settings.token_key_file
            return Identifier(
                None if admin is None else SecretFile(admin),
                None if keys is None else TokenVerifier(database, token_keys.read(keys)),
            )
