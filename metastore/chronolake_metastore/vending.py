"""Short-lived keys of S3 by AssumeRole of an STS, and the file with the roles that are assumed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.settings import Access, Settings, read_toml
from chronolake_model import base_paths, machine
from chronolake_model.base_paths import Kind
from chronolake_model.credentials import StorageAccess
from chronolake_model.storage import is_endpoint, is_region
from chronolake_model.times import Micros

THREADS: Final = 8
"""Requests to STS at a time."""
WAITING_MAX: Final = 256
"""Requests that wait for a thread; further ones are refused at once."""
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 6.0
TRIES_MAX: Final = 2
SECONDS_MAX: Final = 20.0
"""How long a caller waits."""
_PARTITIONS: Final = ("aws-cn", "aws-us-gov")
_TOO_LARGE: Final = "PackedPolicyTooLarge"
_ARN: Final = r"^arn:[\x21-\x7e]{1,2000}\Z"

Record: TypeAlias = Callable[[Context, Table, StorageAccess, Micros], None]

_log = telemetry.logger(__name__)


class StorageRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role that gives access to the tables whose base paths are below ``location``.

    ``sts_endpoint`` and ``endpoint_override``, that of S3, are URLs; without them those of AWS.
    """

    location: str
    role_arn: Annotated[str, msgspec.Meta(pattern=_ARN)]
    region: str
    duration_seconds: Annotated[int, msgspec.Meta(ge=900, le=3600)] = 3600
    sts_endpoint: str | None = None
    endpoint_override: str | None = None

    @property
    def partition(self) -> str:
        """The partition of AWS that the role is in. Other stores use the names of the first one."""
        partition = self.role_arn.split(":")[1]
        return partition if partition in _PARTITIONS else "aws"


class SessionKeys(msgspec.Struct, frozen=True):
    """The keys of a session. ``seconds_left`` is from now to its end."""

    access_key: str
    secret_key: str
    session_token: str
    expires_at: datetime
    seconds_left: int


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    roles: dict[str, StorageRole]


class Vendor:
    """Gives keys to the callers of one server process.

    ``refuse`` raises while the server only reads. ``record`` records keys for a table: their access and end.
    """

    def __init__(self, roles: Sequence[StorageRole], refuse: Callable[[], None], record: Record) -> None:
        self._roles = roles
        self.refuse = refuse
        self.record = record
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="chronolake-sts")
        self._waiting = 0
        self._clients: dict[tuple[str | None, str], Any] = {}
        self._lock = threading.Lock()

    def role_of(self, key: str) -> StorageRole:
        """The role for the normal form of a base path: that with the longest location above it.

        Raises ``CredentialsNotVended``.
        """
        above = [role for role in self._roles if key.startswith(role.location)]
        if not above:
            raise errors.CredentialsNotVended(
                "this server gives no credentials for this table; use credentials of your own"
                + ("" if self._roles else ", or let the operator start it with --credentials-file")
            )
        return max(above, key=lambda role: len(role.location))

    async def keys(self, role: StorageRole, session: str, policy: str) -> SessionKeys:
        """The keys of a session of ``role`` that may do no more than ``policy``.

        Raises ``CredentialsUnavailable``, ``CredentialsNotVended`` and ``Overloaded``.
        """
        # Without one a session has all rights of the role.
        assert policy
        if self._waiting >= WAITING_MAX:
            raise errors.Overloaded("too many requests wait for credentials; try again a little later")
        self._waiting += 1
        try:
            async with asyncio.timeout(SECONDS_MAX):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, self._assume, role, session, policy)
        except TimeoutError as exc:
            raise errors.CredentialsUnavailable(f"STS did not answer within {SECONDS_MAX:g} seconds") from exc
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads. Requests under way end by their own timeouts."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _assume(self, role: StorageRole, session: str, policy: str) -> SessionKeys:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # an extra, and slow
        from botocore.parsers import ResponseParserError  # noqa: PLC0415  # as above

        try:
            answer = self._client(role).assume_role(
                RoleArn=role.role_arn,
                RoleSessionName=session,
                Policy=policy,
                DurationSeconds=role.duration_seconds,
            )
            return _keys_in(answer["Credentials"])
        except ClientError as exc:
            raise _refused(role, str(exc.response.get("Error", {}).get("Code", "")), str(exc)) from exc
        except BotoCoreError as exc:
            raise _refused(role, type(exc).__name__, str(exc)) from exc
        except (ResponseParserError, KeyError, ValueError) as exc:
            # Without its text, which may have a part of the answer, and so keys.
            raise _refused(role, type(exc).__name__, "the answer is not that of an STS") from exc

    def _client(self, role: StorageRole) -> Any:
        place = (role.sts_endpoint, role.region)
        # Sessions of botocore are not for several threads; its clients are.
        with self._lock:
            if place not in self._clients:
                self._clients[place] = _client_of(role)
            return self._clients[place]


def of_settings(settings: Settings, refuse: Callable[[], None], record: Record) -> Vendor:
    """The vendor of a server; without a file one that gives no credentials. Raises ``ConfigurationError``."""
    path = settings.credentials_file
    if path is None:
        return Vendor([], refuse, record)
    if settings.access is Access.OFF:
        raise errors.ConfigurationError(
            "--credentials-file needs --access on: otherwise every client that reaches the port gets keys"
        )
    try:
        import botocore.session  # noqa: F401, PLC0415  # an extra
    except ImportError as exc:
        raise errors.ConfigurationError(
            f"--credentials-file needs another package ({exc}): pip install 'chronolake[server,vending]'"
        ) from exc
    return Vendor(read(path), refuse, record)


def read(path: Path) -> list[StorageRole]:
    """The roles in a file; raises ``ConfigurationError``."""
    named = read_toml(path, _File, "roles", _FORM).roles
    roles = [_normal(f"{path}: role {name}", role) for name, role in named.items()]
    if not roles or len({role.location for role in roles}) != len(roles):
        raise errors.ConfigurationError(f"{path} must have roles, each with another location: {_FORM}")
    return roles


def _normal(place: str, role: StorageRole) -> StorageRole:
    """The role with its location in normal form, which ends with a slash; raises ``ConfigurationError``."""
    try:
        location = base_paths.parse(role.location)
    except ValueError as exc:
        raise errors.ConfigurationError(f"{place}: {exc}") from exc
    if location.kind is not Kind.S3:
        raise errors.ConfigurationError(f"{place}: the location must be s3://bucket/ or s3://bucket/path/")
    if not is_region(role.region):
        raise errors.ConfigurationError(f"{place}: {role.region[:100]!r} is not the name of a region")
    if role.endpoint_override is not None and not is_endpoint(role.endpoint_override):
        raise errors.ConfigurationError(f"{place}: endpoint_override must be the URL of an S3 API")
    if role.sts_endpoint is not None and not machine.is_trustworthy(role.sts_endpoint):
        raise errors.ConfigurationError(f"{place}: sts_endpoint must be https, because keys are in its answers")
    return msgspec.structs.replace(role, location=location.key)


def _client_of(role: StorageRole) -> Any:
    import botocore.session  # noqa: PLC0415  # an extra, and slow
    from botocore.config import Config  # noqa: PLC0415  # as above

    return botocore.session.get_session().create_client(
        "sts",
        region_name=role.region,
        endpoint_url=role.sts_endpoint,
        config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": TRIES_MAX, "mode": "standard"},
        ),
    )


def _keys_in(answer: Mapping[str, Any]) -> SessionKeys:
    expires_at: datetime = answer["Expiration"]
    return SessionKeys(
        answer["AccessKeyId"],
        answer["SecretAccessKey"],
        answer["SessionToken"],
        expires_at,
        max(int((expires_at - datetime.now(UTC)).total_seconds()), 0),
    )


def _refused(role: StorageRole, code: str, reason: str) -> errors.TimelineError:
    """The refusal of STS for the caller. The log has the reason, which names roles."""
    _log.warning("no credentials from STS", role=role.role_arn, code=code, reason=reason[:500])
    if code == _TOO_LARGE:
        return errors.CredentialsNotVended(
            "the policy for this table's base path is too large for STS; use credentials of your own, or a "
            "base path that is shorter or has fewer folders"
        )
    return errors.CredentialsUnavailable(
        f"STS gives no keys ({code[:100]}); try again later. If it stays so, the operator finds the reason in "
        "the log of the server"
    )


_FORM: Final = 'write [roles.<name>], location = "s3://bucket/path/", role_arn = "arn:...", region = "..."'
