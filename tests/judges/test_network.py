"""Proxies and certificates: what the environment names is used, and named where it fails."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path
from shutil import which
from subprocess import run

import anyio
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.network import proxy_of
from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Request
from tests.conftest import group, write
from tests.judges.raw_server import answer, serving
from tests.values import opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
REQUEST = Request("Grade.", "?", ("abcd",))
PROXY = "http://me:secret@127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the environment name nothing."""
    names = [name for name in os.environ if name.lower().endswith("_proxy")]
    for name in (*names, "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


EXCEPTED = {
    "": False,
    "*": True,
    "127.0.0.1": True,
    "127.0.0.0/8": True,
    "10.0.0.0/8,127.0.0.0/8": True,
    "127.0.0.1:8931": True,
    "127.0.0.1:80": False,
    "10.0.0.0/8": False,
    "not/a/network, ::1/128": False,
}
NAMED = {
    "example.com": True,
    ".example.com": True,
    "ample.com": False,
}


def test_excepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY excepts names, addresses and networks, addresses with a port too."""
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("ALL_PROXY", PROXY)
    for base, cases in (
        ("http://127.0.0.1:8931/v1", EXCEPTED),
        ("https://gpu.example.com/v1", NAMED),
    ):
        for listed, excepted in cases.items():
            monkeypatch.setenv("NO_PROXY", listed)
            assert proxy_of(base) == (None if excepted else PROXY), listed


async def test_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on the way through a proxy names the proxy, without its password."""
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    async with opened(
        resolve(JudgeSettings("mine", "http://h.example/v1"))
    ) as judge:
        error = await judge.ask(REQUEST)
    assert isinstance(error, CallError)
    assert (
        "is the proxy http://[key]@127.0.0.1:1 right? NO_PROXY" in error.reason
    )
    assert not error.sent


def test_socks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy is refused by its name before anything is read."""
    for name, scheme in (("HTTP_PROXY", "socks5"), ("all_proxy", "socks5h")):
        with monkeypatch.context() as patch:
            patch.setenv(name, f"{scheme}://127.0.0.1:1080")
            with pytest.raises(
                UsageError, match=f"names a {scheme} proxy.*NO_PROXY"
            ):
                resolve(JudgeSettings("mine", "http://h.example/v1"))


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Make a certificate that nobody has signed, and its key; return their files."""
    made, key = (str(tmp_path / name) for name in ("made.pem", "key.pem"))
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    run(
        [*command, *names, "-keyout", key, "-out", made],
        check=True,
        capture_output=True,
    )
    return made, key


@pytest.mark.skipif(
    not which("openssl"), reason="openssl makes the certificate"
)
async def test_own_authority(
    tmp_path: Path, certificate: tuple[str, str]
) -> None:
    """The certificate that SSL_CERT_FILE names counts on both routes; without it the error names the variable."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    good = answer(200, b'{"choices": [{"message": {"content": "fine"}}]}')
    async with serving(good, tls=tls) as server:
        base = server.base.replace("http:", "https:")
        command = [sys.executable, "-m", "ruler_cli", "score", "in.jsonl", "-"]
        command += ["-m", "openai/m", "--api-base", base, "--ledger", "none"]
        for via, file in (("http", ""), ("http", "made"), ("litellm", "made")):
            env = {**os.environ, "SSL_CERT_FILE": file and certificate[0]}
            few = ["--set", f"via={via}", "--set", "retries=0"]
            done = await anyio.run_process(
                [*command, *few], check=False, cwd=tmp_path, env=env
            )
            told = done.stderr.decode()
            assert ("could not be used" in told) == bool(file), told
            assert ("in SSL_CERT_FILE" in told) != bool(file)
