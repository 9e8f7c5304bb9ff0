"""TLS of the server: its certificate, and the gate for clients with certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final

from granian.constants import SSLProtocols

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings, TlsVersion

_VERSIONS: Final = {TlsVersion.TLS_1_2: SSLProtocols.tls12, TlsVersion.TLS_1_3: SSLProtocols.tls13}


def scheme(settings: Settings) -> str:
    """The scheme of the server's URL."""
    return "http" if settings.tls_certificate is None else "https"


def options(settings: Settings) -> dict[str, Any]:
    """The arguments of the HTTP server. Raises ``ConfigurationError`` for files that it could not serve with.

    The HTTP server itself only warns when it shall verify clients and has no CA, and lets everyone in.
    """
    files = (settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    certificate, key, client_ca = (None if file is None else file.expanduser() for file in files)
    if certificate is None or key is None:
        if any(files):
            raise errors.ConfigurationError(
                "TLS needs both --tls-certificate and --tls-key, also for --tls-client-ca"
            )
        return {}
    _check(
        "certificate and key",
        f"{certificate}, {key}",
        lambda to: to.load_cert_chain(certificate, key, _refuse_password),
    )
    made: dict[str, Any] = {
        "ssl_cert": certificate,
        "ssl_key": key,
        "ssl_protocol_min": _VERSIONS[settings.tls_version],
    }
    if client_ca is not None:
        _check("CA of clients", str(client_ca), lambda to: to.load_verify_locations(client_ca))
        made |= {"ssl_ca": client_ca, "ssl_client_verify": True}
    return made


def _refuse_password() -> str:
    """OpenSSL would otherwise ask for it on the terminal, and the HTTP server could not use the key."""
    raise errors.ConfigurationError(
        "the key of --tls-key has a password, which a server cannot ask for: remove it with "
        "openssl pkey -in KEY -out FILE"
    )


def _check(what: str, names: str, load: Callable[[ssl.SSLContext], None]) -> None:
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    except OSError as exc:
        raise errors.ConfigurationError(f"the {what} cannot be used ({names}): {exc.strerror or exc}") from exc
