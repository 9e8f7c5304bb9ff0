"""The environment variables of Chronolake, so that a misspelled one does not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PREFIX: Final = "CHRONOLAKE_"
URL_VARIABLE: Final = "CHRONOLAKE_URL"
PROGRESS_VARIABLE: Final = "CHRONOLAKE_PROGRESS"
TOKEN_VARIABLE: Final = "CHRONOLAKE_TOKEN"
TOKEN_FILE_VARIABLE: Final = "CHRONOLAKE_TOKEN_FILE"
CA_FILE_VARIABLE: Final = "CHRONOLAKE_CA_FILE"
PLAIN_HTTP_VARIABLE: Final = "CHRONOLAKE_TOKEN_OVER_HTTP"
PROFILE_VARIABLE: Final = "CHRONOLAKE_PROFILE"
OAUTH_VARIABLES: Final = (
    "CHRONOLAKE_OAUTH_CLIENT_ID",
    "CHRONOLAKE_OAUTH_CLIENT_SECRET_FILE",
    "CHRONOLAKE_OAUTH_TOKEN_URL",
    "CHRONOLAKE_OAUTH_SCOPE",
    "CHRONOLAKE_OAUTH_AUDIENCE",
)
OF_CLIENTS: Final = frozenset(
    {
        URL_VARIABLE,
        PROGRESS_VARIABLE,
        TOKEN_VARIABLE,
        TOKEN_FILE_VARIABLE,
        CA_FILE_VARIABLE,
        PLAIN_HTTP_VARIABLE,
        PROFILE_VARIABLE,
        *OAUTH_VARIABLES,
    }
)
OF_TESTS: Final = frozenset(
    PREFIX + name for name in ("COVID_REVISIONS", "EXAMPLES", "HISTORY_SEED", "TEST_DSN")
)
"""Variables of the tests, which their programs inherit."""
_OF_KUBERNETES: Final = ("_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_TCP_ADDR", "_TCP_PORT", "_TCP_PROTO")
"""Kubernetes sets such variables in every container, for a service whose name begins with chronolake."""

_OF_SERVERS: Final = {
    f"{PREFIX}{name}"
    for name in (
        "ADMIN_TOKEN_FILE",
        "CREDENTIALS_FILE",
        "OIDC_FILE",
        "ROLE",
        "TLS_CLIENT_CA",
        "TOKEN_KEY_FILE",
    )
}
"""Variables of servers that are like those of clients."""


def warnings(present: Iterable[str], of_program: Iterable[str], likeness: float = 0.0) -> list[str]:
    """A sentence for each present variable of Chronolake that is unknown.

    ``of_program`` are the variables that the program knows beside those of clients. It does not know those of
    another program: so with ``likeness``, only names that are like a known one are unknown; 1 is equality.
    """
    known = {*of_program, *OF_CLIENTS}
    unknown = sorted(
        name
        for name in set(present) - known - OF_TESTS - _OF_SERVERS
        if name.startswith(PREFIX) and not name.endswith(_OF_KUBERNETES)
    )
    if not unknown:
        return []
    import difflib  # noqa: PLC0415  # slow, and for a mistake only

    endings = sorted(name.removeprefix(PREFIX) for name in known)
    return [
        f"the environment variable {name} is unknown and ignored; did you mean {PREFIX}{nearest}?"
        for name in unknown
        for nearest in difflib.get_close_matches(name.removeprefix(PREFIX), endings, 1, likeness)
    ]
