"""The identifier of callers: it asks the source that the form of a token names, and no other one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import ADMIN, Subject
from chronolake_metastore.domain.tokens import PREFIX
from chronolake_metastore.errors import Reason
from chronolake_metastore.identification import token_keys
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.identification.tokens import TokenVerifier
from chronolake_metastore.settings import Access, Settings
from chronolake_metastore.store.postgres.engine import Database

if TYPE_CHECKING:
    from chronolake_metastore.identification.oidc import OidcVerifier

TOKEN_CHARS_MAX: Final = 16 * 1024
"""Longer texts are no tokens, and nothing is computed from them."""


class Identifier:
    """Identifies the callers of one server process."""

    def __init__(
        self,
        admin: SecretFile | None = None,
        tokens: TokenVerifier | None = None,
        oidc: OidcVerifier | None = None,
    ) -> None:
        self._admin = admin
        self._tokens = tokens
        self._oidc = oidc

    async def run(self) -> None:
        """Keep what identifies callers up to date, until cancelled."""
        if self._oidc is not None:
            await self._oidc.run()

    async def identify(self, token: str) -> Subject:
        """The subject of a token; raises ``Unauthenticated``, and ``DatabaseUnavailable``."""
        if len(token) > TOKEN_CHARS_MAX:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        # First, because it works without a database.
        if self._admin is not None and await self._admin.holds(token):
            return ADMIN
        if token.startswith(PREFIX):
            source: TokenVerifier | OidcVerifier | None = self._tokens
        else:
            source = self._oidc
        if source is not None:
            return await source.identify(token)
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)


def of_settings(settings: Settings, database: Database) -> Identifier | None:
    """The identifier of a server; none while access is off. Raises ``ConfigurationError``."""
    match settings.access:
        case Access.OFF:
            return None
        case Access.ON:
            admin, keys = settings.admin_token_file, settings.token_key_file
            if admin is None and keys is None and settings.oidc_file is None:
                raise errors.ConfigurationError(
                    "with --access on no caller could be known: give --token-key-file, --oidc-file or "
                    "--admin-token-file"
                )
            return Identifier(
                None if admin is None else SecretFile(admin),
                None if keys is None else TokenVerifier(database, token_keys.read(keys)),
                None if settings.oidc_file is None else _oidc(settings.oidc_file),
            )


def _oidc(path: Path) -> OidcVerifier:
    try:
        from chronolake_metastore.identification import issuers, oidc  # noqa: PLC0415  # an extra
    except ImportError as exc:
        raise errors.ConfigurationError(
            f"--oidc-file needs another package ({exc}): pip install 'chronolake[server,oidc]'"
        ) from exc
    return oidc.OidcVerifier(issuers.read(path))
