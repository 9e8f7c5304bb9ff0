"""The identifier of callers: it asks the source that the form of a token names, and no other one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chronolake_metastore import errors
from chronolake_metastore.domain.subjects import ADMIN, Reason, Subject
from chronolake_metastore.domain.tokens import PREFIX
from chronolake_metastore.identification import rates, remembered, token_keys
from chronolake_metastore.identification.rates import BoundedRate
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.identification.tokens import TokenVerifier
from chronolake_metastore.settings import Access, Settings
from chronolake_metastore.store.postgres.engine import Database

if TYPE_CHECKING:
    from chronolake_metastore.identification.oidc import OidcVerifier

TOKEN_CHARS_MAX: Final = 16 * 1024
"""Longer texts are no tokens, and nothing is computed from them."""
UNKNOWN_PER_SECOND: Final = 10.0
"""Unknown tokens of one address whose verification fails; each costs a read, or a signature."""


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
        self._unknown = BoundedRate(UNKNOWN_PER_SECOND)

    async def run(self) -> None:
        """Keep what identifies callers up to date, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for source in (self._tokens, self._oidc):
                if source is not None:
                    workers.create_task(source.run())

    def known(self, token: str) -> Subject | None:
        """The subject of a token, if ``identify`` would give it without waiting, but for the static admin.

        Nearly all requests are identified here, with one digest and no coroutine.
        """
        source = self._source_of(token)
        if source is None or len(token) > TOKEN_CHARS_MAX:
            return None
        key = remembered.key_of(token)
        if self._admin is not None and not self._admin.differs(key):
            return None
        return source.known(key)

    async def identify(self, token: str, address: str | None = None) -> Subject:
        """The subject of a token; raises ``Unauthenticated``, ``DatabaseUnavailable`` and ``RateLimited``.

        An ``address`` that has sent many unknown tokens waits with further ones. Known tokens never wait.
        """
        if len(token) > TOKEN_CHARS_MAX:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        # First, because it works without a database.
        if self._admin is not None and await self._admin.holds(token):
            return ADMIN
        source = self._source_of(token)
        if source is None:
            raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)
        if address is None or source.remembers(token):
            return await source.identify(token)
        return await self._identify_unknown(source, token, address)

    def _source_of(self, token: str) -> TokenVerifier | OidcVerifier | None:
        return self._tokens if token.startswith(PREFIX) else self._oidc

    async def _identify_unknown(
        self, source: TokenVerifier | OidcVerifier, token: str, address: str
    ) -> Subject:
        if seconds := self._unknown.seconds_until_free(address):
            detail = "this address has sent too many tokens that are not accepted"
            raise rates.rate_limited("address", detail, seconds)
        # Before it is verified, so that no more are verified at a time.
        self._unknown.count(address)
        try:
            subject = await source.identify(token)
        except errors.Unavailable:
            self._unknown.discount(address)
            raise
        self._unknown.discount(address)
        return subject


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
