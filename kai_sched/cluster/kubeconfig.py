"""Kubeconfig files: how they are found, read as one and checked, and the three entries of the context in use.

The library that logs in stops at a fault with whatever Python says there, so it is given what was checked here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kai_sched.model.problems import QUOTED_MAX, printable, some_of

KINDS = ("context", "cluster", "user")
USUAL = "~/.kube/config"
OTHER_FILE = "correct it, or name another with --kubeconfig or KUBECONFIG"
ONE_CONTEXT = "name one of them with --context"
OTHER_CONTEXT = "correct it, or name another context with --context"
# Relative to the folder of the kubeconfig.
FILE_FIELDS = {
    "context": (),
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


class KubeconfigError(Exception):
    """One line: the file, the field, what is wrong, and what to do about it."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(printable(f"kubeconfig {source}: {problem}: {remedy}"))


@dataclass(slots=True)
class Kubeconfig:
    """The content of one or more files. As with kubectl, the first current context and entry of a name count."""

    source: str
    current_context: object = None  # as it is written
    entries: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def of_context(self, context: str | None) -> dict[str, Any]:
        """Return a kubeconfig of one context, by default the current one, with its cluster and user alone.

        Raises KubeconfigError.
        """
        name = context or self.current_context
        used = self._content("context", name, "--context" if context else "current-context")
        cluster = self._content("cluster", used.get("cluster"), f"context {name!r}: cluster")
        server = cluster.get("server")
        if not isinstance(server, str) or not server:
            problem = f"cluster {used['cluster']!r}: server: expected an address, such as https://HOST:6443"
            raise KubeconfigError(self.source, problem, OTHER_CONTEXT)
        found = {
            "current-context": name,
            "contexts": [{"name": name, "context": used}],
            "clusters": [{"name": used["cluster"], "cluster": cluster}],
        }
        # A proxy of kubectl on this machine, which is asked by http, needs no user.
        if used.get("user") or server.startswith("https"):
            user = self._content("user", used.get("user"), f"context {name!r}: user")
            found["users"] = [{"name": used["user"], "user": user}]
        return found

    def _content(self, kind: str, name: object, place: str) -> dict[str, Any]:
        """What the entry has below its name; ``place`` is where it is named."""
        known = self.entries[kind]
        if not isinstance(name, str) or name not in known:
            problem = f"there is no {kind} {str(name)[:QUOTED_MAX]!r}" if name else "not set"
            others = f"{kind}s: {some_of(_nearest(str(name or ''), known))}" if known else f"there are no {kind}s"
            remedy = (ONE_CONTEXT if known else OTHER_FILE) if kind == "context" else OTHER_CONTEXT
            raise KubeconfigError(self.source, f"{place}: {problem} ({others})", remedy)
        content = known[name].get(kind)
        if not isinstance(content, dict):
            raise KubeconfigError(self.source, f"{kind} {name!r}: {kind}: expected a mapping", OTHER_CONTEXT)
        return content


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names, those most like ``name`` first, and by the alphabet where it is empty."""
    import difflib  # needed for this error only

    names = sorted(known)
    return difflib.get_close_matches(name[:QUOTED_MAX], names, n=len(names), cutoff=0.0) if name else names


def default_kubeconfig() -> str | None:
    """Return the files that KUBECONFIG names, else that of the user if it exists."""
    return os.environ.get("KUBECONFIG") or (str(Path(USUAL).expanduser()) if _is_there(USUAL) else None)


def read_kubeconfig(source: str) -> Kubeconfig:
    """Read the files; several may be named, as in PATH, and some may be missing. Raises KubeconfigError."""
    found = Kubeconfig(source)
    paths = [path for path in source.split(os.pathsep) if path and _is_there(path)]
    if not paths:
        raise KubeconfigError(source, "no such file", OTHER_FILE)
    contents = {path: _parsed(path) for path in paths}
    if not any(contents.values()):
        raise KubeconfigError(source, "is empty", OTHER_FILE)
    for path, content in contents.items():
        for kind in KINDS:
            for entry in _entries(path, content, kind):
                found.entries[kind].setdefault(entry["name"], entry)
        found.current_context = found.current_context or content.get("current-context")
    return found


def _is_there(path: str) -> bool:
    """Return whether there is a file; one in a folder without permission counts, as reading it says what is wrong."""
    try:
        Path(path).expanduser().stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _parsed(path: str) -> dict[str, Any]:
    try:
        content = yaml.load(Path(path).expanduser().read_bytes(), Loader=yaml.CSafeLoader)
    except OSError as wrong:
        raise KubeconfigError(path, f"cannot be read: {(wrong.strerror or str(wrong)).lower()}", OTHER_FILE) from wrong
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise KubeconfigError(path, f"{where}not valid YAML: {wrong.problem or wrong.context}", OTHER_FILE) from wrong
    except (yaml.YAMLError, ValueError, RecursionError) as wrong:  # bytes that are no text, a date that is none
        raise KubeconfigError(path, f"not valid YAML: {' '.join(str(wrong).split())}", OTHER_FILE) from wrong
    if content is None:  # as with kubectl, one of several files may be empty
        return {}
    if not isinstance(content, dict):
        form = "a list" if isinstance(content, list) else "a text or number"
        problem = f"is {form}, where a mapping with contexts, clusters and users is expected"
        raise KubeconfigError(path, problem, OTHER_FILE)
    return content


def _entries(path: str, content: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    """The entries of a kind, with whole paths in place of relative ones."""
    entries = content.get(f"{kind}s") or []
    if not isinstance(entries, list):
        raise KubeconfigError(path, f"{kind}s: expected a list", OTHER_FILE)
    folder = Path(path).expanduser().absolute().parent
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            problem = f"{kind}s[{place}]: expected a mapping with a name, in quotes if it is a number"
            raise KubeconfigError(path, problem, OTHER_FILE)
        fields = entry.get(kind)
        if isinstance(fields, dict):
            whole = {
                each: str(folder / fields[each]) for each in FILE_FIELDS[kind] if isinstance(fields.get(each), str)
            }
            entry = {**entry, kind: {**fields, **whole}}
        yield entry
