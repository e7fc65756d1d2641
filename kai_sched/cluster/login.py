"""The address of the API server, the proxy and the credentials: from a kubeconfig or the service account."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config_from_dict
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from yarl import URL

from kai_sched.cluster.kubeconfig import OTHER_CONTEXT, USUAL, KubeconfigError, default_kubeconfig, read_kubeconfig
from kai_sched.model.problems import printable

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
NO_KUBECONFIG = f"there is no kubeconfig (KUBECONFIG is not set, and there is no {USUAL})"


class LoginFailure(Exception):
    """No usable kubeconfig or service account; the text says what was tried, what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """One login. Paths may be temporary files of this process; all but ``server`` may be empty."""

    server: str  # "https://host:port", no slash at the end
    ca_path: str | None
    insecure: bool  # the server's certificate is not verified
    certificate_path: str | None
    private_key_path: str | None
    scheme: str | None  # "Bearer" or "Basic"
    token: str | None
    proxy_url: str | None
    tls_server_name: str | None  # the name in the certificate of the server, if it is not that of the host
    files: tuple[
        bytes, ...
    ]  # the content of the files above, so that a renewed certificate gives different credentials

    def authorization(self) -> dict[str, str]:
        """Return the Authorization header, or nothing without a token."""
        return {"Authorization": f"{self.scheme} {self.token}"} if self.token else {}

    def tls(self) -> ssl.SSLContext:
        """Return a new context that trusts the authority of the cluster. Raises LoginFailure if a file is unusable."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            if self.certificate_path:
                context.load_cert_chain(self.certificate_path, self.private_key_path)
        except OSError as wrong:
            files = ", ".join(path for path in (self.ca_path, self.certificate_path, self.private_key_path) if path)
            raise LoginFailure(f"cannot use the certificates {files}: {wrong}: correct these files") from wrong
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' own authorities lack optional extensions
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class Login:
    """How to log in: an explicit kubeconfig, else KUBECONFIG, ~/.kube/config, or the service account of the pod."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None, server: str | None = None) -> None:
        """Use ``context`` instead of the current context of the kubeconfig, and ``server`` instead of its server."""
        self._kubeconfig = kubeconfig or default_kubeconfig()
        self._context = context
        self._server = server

    @property
    def in_cluster(self) -> bool:
        """Whether the service account of the pod is used, whose token file changes."""
        return self._kubeconfig is None

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig that is read; empty for the service account of the pod."""
        return self._kubeconfig or ""

    def current_context(self) -> str:
        """The context that the kubeconfig names; empty without one, also where it cannot be read: ``load`` says why."""
        if self._kubeconfig is None:
            return ""
        try:
            return str(read_kubeconfig(self._kubeconfig).current_context or "")
        except KubeconfigError:
            return ""

    async def load(self) -> Credentials:
        """Read all files again and run the exec plugin, if there is one. Raises LoginFailure."""
        return await self._from_kubeconfig(self._kubeconfig) if self._kubeconfig else self._from_service_account()

    async def _from_kubeconfig(self, kubeconfig: str) -> Credentials:
        configuration = Configuration()
        try:
            entries = read_kubeconfig(kubeconfig).of_context(self._context)
        except KubeconfigError as wrong:
            raise LoginFailure(str(wrong)) from wrong
        try:
            await load_kube_config_from_dict(entries, client_configuration=configuration)
            return self._credentials(configuration)
        except Exception as wrong:  # the library raises OSError, TypeError, errors of base64 and its own
            used = entries["contexts"][0]["context"]
            names = f"the user {used.get('user')!r} or the cluster {used['cluster']!r} cannot be used"
            text = f"kubeconfig {kubeconfig}: {names}: {_text(wrong)}"
            raise LoginFailure(printable(f"{text}: {OTHER_CONTEXT}")) from wrong

    def _from_service_account(self) -> Credentials:
        name_one = "name a kubeconfig with --kubeconfig or KUBECONFIG"
        if self._context:
            raise LoginFailure(f"--context: {NO_KUBECONFIG}, so no context {self._context!r} can be used: {name_one}")
        configuration = Configuration()
        try:
            InClusterConfigLoader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME, False).load_and_set(configuration)
            return self._credentials(configuration)
        except Exception as wrong:  # the library raises OSError and its own
            account = f"the service account of the pod cannot be used: {_text(wrong)}"
            raise LoginFailure(f"{NO_KUBECONFIG}, and {account}: outside of a cluster, {name_one}") from wrong

    def _credentials(self, configuration: Configuration) -> Credentials:
        scheme, _, token = configuration.api_key.get("BearerToken", "").strip().partition(" ")
        server = (self._server or str(configuration.host)).rstrip("/")
        paths = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        return Credentials(
            server=server,
            ca_path=paths[0],
            insecure=not configuration.verify_ssl,
            certificate_path=paths[1],
            private_key_path=paths[2],
            scheme=scheme or None,
            token=token.strip() or None,
            proxy_url=configuration.proxy or _environment_proxy(server),
            tls_server_name=configuration.tls_server_name,
            files=tuple(Path(path).read_bytes() for path in paths if path),
        )


def _text(wrong: Exception) -> str:
    """What the library says, or at least the kind of error: some have no text."""
    return str(wrong).rstrip(".") or type(wrong).__name__


def _environment_proxy(server: str) -> str | None:
    """Return the proxy by HTTPS_PROXY and NO_PROXY; as with kubectl, none for the machine itself."""
    url = URL(server)
    host = url.host or ""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    return getproxies().get(url.scheme)
