"""TLS by the server: its version, the gate for clients with certificates, and a start that fails closed."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import chronolake
from chronolake_metastore import errors
from chronolake_metastore.cli import encryption, serving
from chronolake_metastore.settings import Settings
from tests.docs.markdown import ROOT
from tests.fix_server import ServerProcess


class Certificates:
    """The files of a server, a CA of clients, and what clients trust."""

    def __init__(self, folder: Path) -> None:
        self._ca, self._client_ca = trustme.CA(), trustme.CA()
        self.certificate, self.key, self.client_ca = folder / "cert", folder / "key", folder / "ca"
        self.ca = folder / "server-ca"
        self._ca.cert_pem.write_to_path(self.ca)
        issued = self._ca.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(self.certificate)
        issued.private_key_pem.write_to_path(self.key)
        self._client_ca.cert_pem.write_to_path(self.client_ca)

    def client(self, *, has_certificate: bool = False, of_ca: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._ca.configure_trust(context)
        if has_certificate:
            (of_ca or self._client_ca).issue_cert("client@example.org").configure_cert(context)
        return context

    @property
    def flags(self) -> list[str]:
        return ["--tls-certificate", str(self.certificate), "--tls-key", str(self.key)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serve(dsn: str, tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start(tls: ssl.SSLContext, *flags: str) -> ServerProcess:
        server = ServerProcess(dsn, tmp_path / "server.log", *flags, tls=tls)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()
        assert "panic" not in server.log()


def version_at(server: ServerProcess, tls: ssl.SSLContext) -> int:
    return httpx.get(f"{server.url}/health", verify=tls).status_code


@pytest.mark.parametrize("lowest", ["1.2", "1.3"])
def test_a_client_of_an_older_version_is_refused_unless_it_is_allowed(
    serve: Callable[..., ServerProcess], certificates: Certificates, lowest: str
) -> None:
    server = serve(certificates.client(), *certificates.flags, "--tls-version", lowest)
    old = certificates.client()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    answered = []
    with contextlib.suppress(httpx.TransportError):
        answered.append(version_at(server, old))

    assert answered == ([200] if lowest == "1.2" else [])
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{server.port}/health")
    assert f"https://127.0.0.1:{server.port}" in server.log()


def test_a_client_without_a_certificate_of_the_ca_is_refused(
    serve: Callable[..., ServerProcess], certificates: Certificates
) -> None:
    known = certificates.client(has_certificate=True)
    server = serve(known, *certificates.flags, "--tls-client-ca", str(certificates.client_ca))

    assert version_at(server, known) == 200
    stranger = certificates.client(has_certificate=True, of_ca=trustme.CA())
    for unknown in (certificates.client(), stranger):
        with pytest.raises(httpx.TransportError):
            version_at(server, unknown)


def test_the_client_trusts_the_ca_that_it_is_given(
    serve: Callable[..., ServerProcess], certificates: Certificates
) -> None:
    server = serve(certificates.client(), *certificates.flags)

    with chronolake.connect(server.url, ca_file=certificates.ca) as client:
        assert client.time().earliest
    with (
        chronolake.connect(server.url) as client,
        pytest.raises(chronolake.errors.ConnectionFailed, match="CHRONOLAKE_CA_FILE") as failed,
    ):
        client.time()
    assert failed.value.is_final
    with (
        chronolake.connect(f"http://127.0.0.1:{server.port}") as client,
        pytest.raises(chronolake.errors.ConnectionFailed, match="give its URL as https://"),
    ):
        client.time()


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_a_gate_without_a_ca_does_not_open(certificates: Certificates, tmp_path: Path, content: str) -> None:
    (tmp_path / "ca").write_text(content)
    settings = Settings(
        tls_certificate=certificates.certificate, tls_key=certificates.key, tls_client_ca=tmp_path / "ca"
    )
    with pytest.raises(errors.ConfigurationError, match="CA of clients"):
        encryption.options(settings)


def test_a_part_of_what_tls_needs_is_refused(certificates: Certificates) -> None:
    for settings in (
        Settings(tls_certificate=certificates.certificate),
        Settings(tls_key=certificates.key),
        Settings(tls_client_ca=certificates.client_ca),
        Settings(tls_certificate=certificates.certificate, tls_key=certificates.certificate),
        Settings(tls_certificate=Path("nowhere"), tls_key=certificates.key),
    ):
        with pytest.raises(errors.ConfigurationError):
            encryption.options(settings)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(
    certificates: Certificates, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    settings = Settings(tls_certificate=certificates.certificate, tls_key=tmp_path / "key")
    with pytest.raises(errors.ConfigurationError, match="has a password"):
        encryption.options(settings)


def is_healthy(server: ServerProcess, **environment: str) -> bool:
    """Whether the check of the image, in this environment, finds the server ready."""
    (check,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.+\])$", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    command = [sys.executable, *json.loads(check)[1:]]
    variables = {"CHRONOLAKE_PORT": str(server.port), **environment}
    return subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def test_a_server_with_tls_is_healthy_for_the_check_of_the_image_and_has_its_port(
    serve: Callable[..., ServerProcess], certificates: Certificates, shared_server: ServerProcess
) -> None:
    server = serve(certificates.client(), *certificates.flags)
    assert is_healthy(server, CHRONOLAKE_TLS_CERTIFICATE=str(certificates.certificate))
    assert not is_healthy(server)
    assert is_healthy(shared_server)
    with pytest.raises(errors.ConfigurationError, match="a Chronolake server listens there"):
        serving.refuse_taken_port(Settings(port=server.port))
