from __future__ import annotations

import json
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from kai_sched.cluster import login
from kai_sched.cluster.client import Api
from kai_sched.cluster.login import Login, LoginFailure
from tests.unit.cluster.conftest import ApiServer

pytestmark = pytest.mark.usefixtures("nowhere")

NO_KUBECONFIG = "there is no kubeconfig (KUBECONFIG is not set, and there is no ~/.kube/config)"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without kubeconfig, outside of a cluster, without proxies."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


class ServiceAccount:
    """The folder that a pod finds its token in."""

    def __init__(self, folder: Path) -> None:
        self.token = folder / "token"
        self.authority = folder / "ca.crt"

    def write(self, token: str) -> None:
        self.token.write_text(token + "\n")

    def remove(self) -> None:
        self.token.unlink()


@pytest.fixture
def service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServiceAccount:
    account = ServiceAccount(tmp_path)
    account.write("first")
    account.authority.write_text("a certificate")
    monkeypatch.setattr(login, "SERVICE_TOKEN_FILENAME", str(account.token))
    monkeypatch.setattr(login, "SERVICE_CERT_FILENAME", str(account.authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return account


@pytest_asyncio.fixture
async def echo(server: ApiServer) -> AsyncIterator[ApiServer]:
    """A server that answers with the Authorization header."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.headers.get("Authorization", "nobody"))

    server.answer = answer
    yield server


async def test_nothing_to_log_in_with() -> None:
    with pytest.raises(LoginFailure) as raised:
        await Api.connect()
    account = "the service account of the pod cannot be used: Service host/port is not set"
    remedy = "outside of a cluster, name a kubeconfig with --kubeconfig or KUBECONFIG"
    assert str(raised.value) == f"{NO_KUBECONFIG}, and {account}: {remedy}"


@pytest.mark.usefixtures("service_account")
async def test_a_context_without_a_kubeconfig() -> None:
    """The service account has no contexts: in a pod it would be another cluster than the one that was named."""
    with pytest.raises(LoginFailure) as raised:
        await Api.connect(context="nowhere")
    text = f"--context: {NO_KUBECONFIG}, so no context 'nowhere' can be used"
    assert str(raised.value) == f"{text}: name a kubeconfig with --kubeconfig or KUBECONFIG"


async def test_named_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LoginFailure, match="missing: no such file"):
        await Api.connect(str(tmp_path / "missing"))


@pytest.mark.parametrize("text", ["{", "[]", "current-context: x", "{}"])
async def test_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken").write_text(text)
    with pytest.raises(LoginFailure, match="broken"):
        await Api.connect(str(tmp_path / "broken"))


async def test_unknown_context_is_named(server: ApiServer) -> None:
    with pytest.raises(LoginFailure, match="production"):
        await Api.connect(str(server.kubeconfig), context="production")


async def test_kubeconfig_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, server: ApiServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{server.kubeconfig}")
    assert (await Login().load()).server == server.url


async def test_kubeconfig_of_the_user(server: ApiServer, tmp_path: Path) -> None:
    usual = tmp_path / "nobody" / ".kube" / "config"
    usual.parent.mkdir(parents=True)
    usual.write_text(server.kubeconfig.read_text())
    assert (await Login().load()).server == server.url


async def test_user_with_password(echo: ApiServer) -> None:
    echo.write_user({"username": "u", "password": "p"})
    api = await Api.connect(str(echo.kubeconfig))
    assert await api.request("GET", "/x") == b"Basic dTpw"
    await api.close()


async def test_exec_plugin_is_run_again(server: ApiServer, tmp_path: Path) -> None:
    """Its token is good for one request more than it has been asked for."""
    plugin, runs = tmp_path / "plugin", tmp_path / "runs"
    version = "client.authentication.k8s.io/v1"
    plugin.write_text(
        f"#!{sys.executable}\nimport json, pathlib\nruns = pathlib.Path({str(runs)!r})\n"
        "n = len(runs.read_text()) if runs.exists() else 0\nruns.write_text('x' * (n + 1))\n"
        f"print(json.dumps(dict(apiVersion={version!r}, kind='ExecCredential', status=dict(token=f't{{n}}'))))\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    server.write_user({"exec": {"apiVersion": version, "command": str(plugin)}})

    async def answer(request: web.BaseRequest) -> web.Response:
        who = request.headers["Authorization"]
        return web.Response(text=who, status=401 if who == "Bearer t0" else 200)

    server.answer = answer
    api = await Api.connect(str(server.kubeconfig))
    assert await api.request("GET", "/x") == b"Bearer t1"
    assert await api.request("GET", "/x") == b"Bearer t1"
    assert runs.read_text() == "xx"
    await api.close()


async def test_service_account(service_account: ServiceAccount) -> None:
    found = await Login().load()
    assert (found.server, found.scheme, found.token) == ("https://[fd00::1]:443", "Bearer", "first")
    assert found.ca_path == str(service_account.authority)
    assert not found.insecure


async def test_token_of_service_account_is_read_each_minute(service_account: ServiceAccount, echo: ApiServer) -> None:
    now = 1000.0
    way = Login(server=echo.url)
    api = Api(way, await way.load(), 4, clock=lambda: now)
    service_account.write("second")
    assert await api.request("GET", "/x") == b"Bearer first"
    now += 61.0
    assert await api.request("GET", "/x") == b"Bearer second"
    service_account.remove()  # in the middle of a rotation: the old one still does
    now += 61.0
    assert await api.request("GET", "/x") == b"Bearer second"
    service_account.write("third")
    assert await api.request("GET", "/x") == b"Bearer second"
    now += 61.0
    assert await api.request("GET", "/x") == b"Bearer third"
    await api.close()


async def test_options_of_the_cluster(server: ApiServer) -> None:
    cluster = {
        "server": "https://192.0.2.1:6443/",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://192.0.2.2:3128",
    }
    server.write_user({"token": "t"}, cluster)
    found = await Login(str(server.kubeconfig)).load()
    assert (found.server, found.insecure, found.tls_server_name) == ("https://192.0.2.1:6443", True, "kubernetes")
    assert found.proxy_url == "http://192.0.2.2:3128"
    assert not found.tls().check_hostname


async def test_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch, server: ApiServer) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://192.0.2.2:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    proxies = {}
    for host in ("192.0.2.1", "api.inside.example", "127.0.0.1"):
        server.write_user({"token": "t"}, {"server": f"https://{host}:6443"})
        proxies[host] = (await Login(str(server.kubeconfig)).load()).proxy_url
    assert proxies == {"192.0.2.1": "http://192.0.2.2:3128", "api.inside.example": None, "127.0.0.1": None}


async def test_certificates_that_are_none(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("not a certificate")
    server.write_user(
        {"token": "t"}, {"server": "https://192.0.2.1", "certificate-authority": str(tmp_path / "ca.crt")}
    )
    with pytest.raises(LoginFailure, match=r"cannot use the certificates .*ca\.crt"):
        await Api.connect(str(server.kubeconfig))


async def test_renewed_certificate_makes_other_credentials(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("one")
    server.write_user(
        {"token": "t"}, {"server": "https://192.0.2.1", "certificate-authority": str(tmp_path / "ca.crt")}
    )
    way = Login(str(server.kubeconfig))
    before = await way.load()
    assert await way.load() == before
    (tmp_path / "ca.crt").write_text("two")
    assert await way.load() != before
    assert (
        json.loads(server.kubeconfig.read_text())["clusters"][0]["cluster"]["certificate-authority"] == before.ca_path
    )
