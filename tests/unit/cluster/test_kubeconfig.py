"""What is said of a kubeconfig that cannot be used: one line with the file, the field, the fault and the remedy."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kai_sched.cluster.kubeconfig import ONE_CONTEXT, OTHER_CONTEXT, OTHER_FILE
from kai_sched.cluster.login import Login, LoginFailure

HTTPS, HTTP = "https://192.0.2.1:6443", "http://127.0.0.1:8001"
# Each context has its own fault, but for "good" and "proxy".
CONTEXTS = {
    "good": {"cluster": "c", "user": "u"},
    "proxy": {"cluster": "http"},
    "other-cluster": {"cluster": "d", "user": "u"},
    "other-user": {"cluster": "c", "user": "v"},
    "no-cluster": {"user": "u"},
    "no-user": {"cluster": "c"},
    "nothing": None,
    "no-server": {"cluster": "empty", "user": "u"},
}


def entries(kind: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, kind: content} for name, content in given.items()]


def content(**changes: Any) -> str:
    """A kubeconfig without a current context."""
    clusters = {"c": {"server": HTTPS}, "http": {"server": HTTP}, "empty": {}}
    usual = {"contexts": entries("context", CONTEXTS), "clusters": entries("cluster", clusters)}
    return json.dumps({**usual, "users": entries("user", {"u": {"token": "t"}}), **changes})


async def failure(path: Path | str, context: str | None = None) -> str:
    """The message, which has to be one line."""
    with pytest.raises(LoginFailure) as raised:
        await Login(str(path), context).load()
    assert str(raised.value).isprintable()
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("contexts: [\n", "line 2: not valid YAML: did not find expected node content"),
        ("a: 1\n---\nb: 2\n", "line 2: not valid YAML: but found another document"),
        ("a: 2024-13-01", "not valid YAML: month must be in 1..12"),
        ("a\0b", "not valid YAML: unacceptable character #x0000: control characters are not allowed"),
        ("[]", "is a list, where a mapping with contexts, clusters and users is expected"),
        ("text", "is a text or number, where a mapping with contexts, clusters and users is expected"),
        ("contexts: {a: b}", "contexts: expected a list"),
        ("users: [oops]", "users[0]: expected a mapping with a name, in quotes if it is a number"),
        ("clusters: [{name: 1}]", "clusters[0]: expected a mapping with a name, in quotes if it is a number"),
        ("contexts: null", "current-context: not set (there are no contexts)"),
        ("current-context: prod", "current-context: there is no context 'prod' (there are no contexts)"),
    ],
)
async def test_file_of_another_form(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    found = await failure(path)
    assert found.startswith(f"kubeconfig {path}: {problem}")
    assert found.endswith(f": {OTHER_FILE}")


async def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert await failure(tmp_path) == f"kubeconfig {tmp_path}: cannot be read: is a directory: {OTHER_FILE}"
    missing = tmp_path / "missing"
    assert await failure(missing) == f"kubeconfig {missing}: no such file: {OTHER_FILE}"


async def test_file_without_permission(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where its folder is closed, so that nobody can say whether it exists."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / ".kube" / "config"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    expected = f"kubeconfig {path}: cannot be read: permission denied: {OTHER_FILE}"
    assert await failure(path) == expected
    assert await failure("") == expected


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ("other-cluster", "context 'other-cluster': cluster: there is no cluster 'd' (clusters: http, empty, c)"),
        ("other-user", "context 'other-user': user: there is no user 'v' (users: u)"),
        ("no-cluster", "context 'no-cluster': cluster: not set (clusters: c, empty, http)"),
        ("no-user", "context 'no-user': user: not set (users: u)"),
        ("nothing", "context 'nothing': context: expected a mapping"),
        ("no-server", "cluster 'empty': server: expected an address, such as https://HOST:6443"),
    ],
)
async def test_context_that_cannot_be_used(tmp_path: Path, context: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(content())
    assert await failure(path, context) == f"kubeconfig {path}: {problem}: {OTHER_CONTEXT}"


async def test_context_that_is_not_there(tmp_path: Path) -> None:
    """Those most like it come first."""
    path = tmp_path / "config"
    names = [*(f"team-{number}" for number in range(20)), "production"]
    path.write_text(content(contexts=entries("context", dict.fromkeys(names, CONTEXTS["good"]))))
    given = await failure(path, "prodution")
    assert given.startswith(f"kubeconfig {path}: --context: there is no context 'prodution' (contexts: production, ")
    assert given.endswith(f" and 11 more): {ONE_CONTEXT}")

    assert "current-context: not set (contexts: production, team-0, team-1, team-10, " in await failure(path)
    path.write_text(content(**{"current-context": "god"}))
    assert "current-context: there is no context 'god' (contexts: good, " in await failure(path)


async def test_a_proxy_of_kubectl_needs_no_user(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content())
    found = await Login(str(path), "proxy").load()
    assert (found.server, found.token) == (HTTP, None)


async def test_files_of_one_user_are_beside_the_kubeconfig_that_names_them(tmp_path: Path) -> None:
    """As with kubectl, each kubeconfig of several has its own folder."""
    for name, text in (("one/ca.crt", "ca"), ("two/token", "secret")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    cluster = {"server": HTTPS, "certificate-authority": "ca.crt"}
    one, two = tmp_path / "one" / "config", tmp_path / "two" / "config"
    one.write_text(content(clusters=entries("cluster", {"c": cluster}), users=[]))
    two.write_text(content(users=entries("user", {"u": {"tokenFile": "token"}})))
    found = await Login(f"{one}{os.pathsep}{two}", "good").load()
    assert (found.ca_path, found.token) == (str(tmp_path / "one" / "ca.crt"), "secret")


async def test_credentials_that_cannot_be_used_name_their_entries(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content(users=entries("user", {"u": {"client-certificate-data": "x"}})))
    found = await failure(path, "good")
    assert found.startswith(f"kubeconfig {path}: the user 'u' or the cluster 'c' cannot be used: ")
    assert found.endswith(f": {OTHER_CONTEXT}")


async def test_one_of_several_files_may_be_empty_or_missing(tmp_path: Path) -> None:
    empty, missing, full = (tmp_path / name for name in ("empty", "missing", "full"))
    empty.touch()
    full.write_text(content())
    assert (await Login(os.pathsep.join(map(str, (empty, missing, full))), "good").load()).token == "t"


async def test_a_pipe_can_be_read_once(tmp_path: Path) -> None:
    """As of ``--kubeconfig <(command)``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[content()], daemon=True)
    writer.start()
    assert (await Login(str(pipe), "good").load()).token == "t"
    writer.join()


async def test_the_first_file_that_names_a_current_context_decides(tmp_path: Path) -> None:
    """As with kubectl, which leaves an empty name in files that it makes."""
    paths = []
    for number, name in enumerate(("", "proxy", "good", "")):
        path = tmp_path / str(number)
        path.write_text(content(**{"current-context": name}))
        paths.append(str(path))
    way = Login(os.pathsep.join(paths))
    assert (way.current_context(), (await way.load()).server) == ("proxy", HTTP)
