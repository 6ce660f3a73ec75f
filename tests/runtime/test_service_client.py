"""The pods' client against the real service, over a line that fails in every way."""

import datetime
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edl.operator.job_service import RoleRecord
from edl.protocol.progress import ProgressReport
from edl.protocol.slots import Slot
from edl.runtime.service_client import (
    OverruledError,
    ServiceClient,
    ServiceDownError,
    ServiceRefusalError,
    StaleEpochError,
    VersionError,
    _refusal,
)
from tests.runtime.harness import Service

opened: list[ServiceClient] = []


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(interval=0.0)
    made.edit(roles={"pserver": RoleRecord(1)}, pods=frozenset({"a", "b"}))
    yield made
    while opened:
        opened.pop().close()
    made.close()


def client(service: Service, token: str = "secret", port: int | None = None) -> ServiceClient:
    opened.append(ServiceClient(f"http://127.0.0.1:{port or service.port}", "ns", "j", token, timeout=10))
    return opened[-1]


def test_slots_values_views_and_progress(service: Service) -> None:
    pod = client(service)
    slot = pod.claim("pserver", None, "a/1", "h:1")
    assert slot == Slot("pserver", 0, 1)
    with pytest.raises(ServiceRefusalError) as none_free:
        pod.claim("pserver", None, "b/1")
    assert none_free.value.code == "no-free-slot"
    assert pod.get("queue") is None
    version = pod.put("queue", b"\x00one", version=0, slot=slot)
    assert pod.get("queue") == (b"\x00one", version)
    with pytest.raises(VersionError):
        pod.put("queue", b"two", version=0, slot=slot)
    view = pod.job()
    assert view is not None
    assert view.roles["pserver"].slots[0].address == "h:1"
    assert pod.job(view.revision, wait=0.1) is None
    pod.progress(ProgressReport(loss=0.5))
    assert service.progress()[0].loss == 0.5


def test_one_whose_slot_was_taken_is_told(service: Service) -> None:
    pod = client(service)
    old = pod.claim("master", 0, "a/1")
    pod.claim("master", 0, "b/1")
    with pytest.raises(StaleEpochError):
        pod.put("queue", b"", version=0, slot=old)


def test_a_wrong_token_is_final(service: Service) -> None:
    with pytest.raises(ServiceRefusalError, match="does not open"):
        client(service, "guess").job()


def test_a_write_is_tried_until_the_service_is_back(service: Service) -> None:
    pod = client(service)
    slot = pod.claim("master", 0, "a/1")
    service.down()
    with pytest.raises(ServiceDownError):
        pod.job()
    with pytest.raises(ServiceDownError):
        pod.put("queue", b"x", version=0, slot=slot, stop=lambda: True)
    timer = threading.Timer(0.3, service.up)
    timer.start()
    assert pod.put("queue", b"x", version=0, slot=slot) > 0
    timer.join()


class DeafLine:
    """Carries requests to the service and loses the answers to the first of them."""

    def __init__(self, port: int, lose: int) -> None:
        self._target, self._lose = port, lose
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            with here, socket.create_connection(("127.0.0.1", self._target)) as there:
                there.sendall(_whole_request(here))
                answer = there.recv(65536)
                if self._lose:
                    self._lose -= 1
                else:
                    here.sendall(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _whole_request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def test_a_write_whose_answer_was_lost_is_recognised(service: Service) -> None:
    slot = client(service).claim("master", 0, "a/1")
    line = DeafLine(service.port, lose=2)
    try:
        version = client(service, port=line.port).put("queue", b"once", version=0, slot=slot)
    finally:
        line.close()
    assert client(service).get("queue") == (b"once", version)


def certificate(folder: Path) -> tuple[str, ssl.SSLContext]:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edl")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "pair.pem").write_bytes(private + pem)
    (folder / "ca.pem").write_bytes(pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "pair.pem")
    return pem.decode(), context


def test_the_endpoint_is_verified_with_the_ca_of_the_environment(tmp_path: Path) -> None:
    pem, tls = certificate(tmp_path)
    service = Service(tls=tls)
    url = f"https://127.0.0.1:{service.port}"
    try:
        for ca in (pem, str(tmp_path / "ca.pem")):
            pod = ServiceClient(url, "ns", "j", "secret", ca=ca)
            assert pod.job() is not None
            pod.close()
        with pytest.raises(ServiceDownError, match="CERTIFICATE_VERIFY_FAILED"):
            ServiceClient(url, "ns", "j", "secret").job()
    finally:
        service.close()


@pytest.mark.parametrize("url", ["", "edl:8080", "ftp://x"])
def test_a_bad_url_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="EDL_SERVICE_URL"):
        ServiceClient(url, "ns", "j", "t")


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (409, b'{"error": "stale epoch", "code": "stale-epoch", "epoch": 2}', StaleEpochError),
        (409, b'{"error": "stale epoch"}', StaleEpochError),
        (409, b"<html>conflict</html>", StaleEpochError),
        (409, b'{"error": "all are held", "code": "no-free-slot"}', ServiceRefusalError),
        (409, b'{"error": "by-hand rules", "code": "ruled", "by": "by-hand"}', OverruledError),
        (409, b'{"error": "not ours", "code": "name-taken"}', OverruledError),
        (409, b'{"error": "?", "code": "of-tomorrow"}', ServiceRefusalError),
        (412, b'{"error": "late", "code": "version", "version": 3}', VersionError),
        (412, b"", VersionError),
        (404, b'{"error": "none", "code": "no-such-job"}', ServiceRefusalError),
        (503, b'{"error": "this replica does not lead", "code": "not-leading"}', ServiceDownError),
        (502, b"bad gateway", ServiceDownError),
    ],
)
def test_refusals_are_told_apart_by_code_and_without_one_by_status(
    status: int, answer: bytes, kind: type[Exception]
) -> None:
    assert type(_refusal(status, answer)) is kind
