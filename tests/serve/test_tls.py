"""HTTPS: served, taken up anew without a stop, and refused in one line where a certificate is no good."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
import warnings

import pytest

from pintgn.errors import BadInput
from pintgn.serve.api import create_app
from pintgn.serve.http_server import Server, check_certificate
from pintgn.serve.limits import Tls
from pintgn.serve.service import Service

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here to make certificates")


def certificate(folder, name):
    """A certificate for this machine that signs itself."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@contextlib.contextmanager
def listening(service, cert, key):
    server = Server(create_app(service), service.limits, Tls(cert, key))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield server, bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def asked(port, cert, path="/health", body=None):
    """An answer, from whoever shows exactly this certificate."""
    trusted = ssl.create_default_context(cafile=cert)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=trusted, timeout=20) as answer:
        return json.load(answer)


def test_a_service_speaks_tls_and_takes_up_a_new_certificate(run_folder, tmp_path, caplog):
    old, new = certificate(tmp_path, "old"), certificate(tmp_path, "new")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(old[0], cert)
    shutil.copy(old[1], key)
    with Service.open(run_folder, tmp_path / "store") as service, listening(service, cert, key) as (server, port):
        assert asked(port, old[0])["status"] == "ok"
        assert asked(port, old[0], "/events", {"src": "ann", "dst": "bob", "t": 9_000})["accepted"] == 1
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            asked(port, new[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:  # no TLS at all
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" not in plain.recv(1_000)

        shutil.copy(new[0], cert)
        server.reload_certificate()
        assert "stays as it was" in caplog.text, "half of it is new"
        assert asked(port, old[0])["status"] == "ok"
        shutil.copy(new[1], key)
        server.reload_certificate()
        assert asked(port, new[0])["status"] == "ok"


@pytest.mark.parametrize("version", [one for one in ssl.TLSVersion if one > 0])
def test_only_tls_1_2_and_later_are_spoken(run_folder, tmp_path, version):
    cert, key = certificate(tmp_path, "one")
    client = ssl.create_default_context(cafile=cert)
    client.set_ciphers("ALL:@SECLEVEL=0")  # or this end would refuse the old ones by itself
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.minimum_version = client.maximum_version = version
    with Service.open(run_folder, tmp_path / "store") as service, listening(service, cert, key) as (server, port):
        assert server.config.ssl.minimum_version == ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
            if version < ssl.TLSVersion.TLSv1_2:
                with pytest.raises(ssl.SSLError):
                    client.wrap_socket(plain, server_hostname="127.0.0.1")
            else:
                with client.wrap_socket(plain, server_hostname="127.0.0.1") as spoken:
                    assert spoken.version() == version.name.replace("_", ".")


def test_a_certificate_that_is_no_good_is_refused_in_one_line(tmp_path):
    cert, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "other")
    check_certificate(Tls(cert, key))
    check_certificate(Tls())
    (tmp_path / "noise").write_bytes(b"\xff\x00")
    locked = tmp_path / "locked"
    subprocess.run(["openssl", "ec", "-aes128", "-passout", "pass:x", "-in", key, "-out", locked], check=True,
                   capture_output=True)  # fmt: skip
    for given, said in [
        ((cert, None), "go together"),
        ((None, key), "go together"),
        ((cert, tmp_path / "nowhere"), "cannot read .*nowhere: No such file"),
        ((tmp_path, key), "cannot read"),
        ((cert, other), r"no certificate and its private key in PEM \(KEY_VALUES_MISMATCH\)"),
        ((tmp_path / "noise", key), "in PEM"),
        ((cert, tmp_path / "noise"), "in PEM"),
        ((cert, locked), "is encrypted"),
    ]:
        with pytest.raises(BadInput, match=said) as found:
            check_certificate(Tls(*given))
        assert "\n" not in str(found.value)
