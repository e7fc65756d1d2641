"""An API server on loopback that serves given objects, read only, and the kubeconfig for it: the running cluster of the
documents.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]


def resource_path(manifest: Manifest) -> str:
    """The path of the list that the object is in, over all namespaces."""
    version, plural = manifest["apiVersion"], manifest["kind"].lower()
    plural = f"{plural}es" if plural.endswith("s") else f"{plural}s"
    return f"/apis/{version}/{plural}" if "/" in version else f"/api/{version}/{plural}"


def handler_of(lists: dict[str, list[Manifest]]) -> type[BaseHTTPRequestHandler]:
    """A handler that answers a GET of a list, and says 404 to all else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            items = lists.get(self.path.partition("?")[0])
            known = items is not None
            document = {"metadata": {"resourceVersion": "1"}, "items": items} if known else {"code": 404}
            body = json.dumps(document).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def served(manifests: Iterable[Manifest], empty: Iterable[str], context: str, folder: Path) -> Iterator[Path]:
    """Serve the objects, and empty lists at the other paths; gives the kubeconfig, whose context has that name."""
    lists: dict[str, list[Manifest]] = {path: [] for path in empty}
    for each in manifests:
        lists.setdefault(resource_path(each), []).append(each)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(lists))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))  # how soon it sees that it is to end
    thread.start()
    try:
        yield write_kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{server.server_port}", context)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_kubeconfig(path: Path, server: str, context: str) -> Path:
    """A kubeconfig for an API server that asks for no login."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": {"token": "none"}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    path.write_text(json.dumps(content))
    return path
