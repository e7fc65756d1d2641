"""The programs that the cluster tests run, built from the Go modules in tools/ when a test needs them.

Each folder of tools/ is a group of programs that is built into a folder of its own in the user's cache, named after all
that goes into it, so that the second time nothing is built. A group is the `tool` lines of its go.mod, or the program
whose source lies beside it. KUBEBUILDER_ASSETS, the convention of envtest, is a folder with programs to take instead.
Needs the standard library only.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TOOLS = Path(__file__).resolve().parent / "tools"
GROUPS = (
    "etcd",
    "kwok",
    "kubernetes",
    "kubernetes-1.37",
    "helm",
    "kuberay",
    "jobset",
    "kueue",
    "lws",
    "dra",
    "allocator",
    "prometheus",
    "prometheus-operator",
    "node-topology",
)
ASSETS = "KUBEBUILDER_ASSETS"

# The stages say how kwok's kubelets behave; it knows none of itself. A heartbeat each 20 s is what a kubelet sends.
KWOK_STAGES = ("kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/pod/fast")
GO_NAMES = {
    "etcd": "server",
    "kuberay": "ray-operator",
    "lws": "cmd",
    "dra": "dra-example-kubeletplugin",
}  # what `go build` calls it instead
# The program that stands for its group, if it has another name.
PROGRAMS = {"kubernetes": "kube-apiserver", "kubernetes-1.37": "kube-apiserver"}
NEWER = frozenset({"kubernetes-1.37"})  # beside the version that most tests run on, for what that does not have
# Build tags. Without them Prometheus has the libraries of two dozen clouds, in which it would look for targets.
TAGS = {"prometheus": "remove_all_sd"}
# What else is taken from a group's module, into a folder beside its program.
SHIPPED = {
    "kwok": ("sigs.k8s.io/kwok", "stages", KWOK_STAGES),
    "kuberay": ("github.com/ray-project/kuberay/ray-operator", "manifests", ("config/crd/bases", "config/samples")),
    "jobset": ("sigs.k8s.io/jobset", "manifests", ("config/components/crd/bases", "config/components/webhook")),
    "prometheus-operator": (
        "github.com/prometheus-operator/prometheus-operator",
        "manifests",
        ("example/prometheus-operator-crd",),
    ),
    "kueue": ("sigs.k8s.io/kueue", "manifests", ("config/components/crd/bases",)),
    "lws": ("sigs.k8s.io/lws", "manifests", ("config/crd/bases", "config/webhook")),
    "node-topology": ("github.com/k8stopologyawareschedwg/noderesourcetopology-api", "manifests", ("manifests",)),
}

FILES_ONLY = frozenset({"kueue", "prometheus-operator", "node-topology"})  # groups without a program


class Unavailable(Exception):
    """A program cannot be had here; the text says why and what to do."""


def go() -> str:
    """The path of the go command. Raises Unavailable where there is none."""
    found = shutil.which("go")
    if found is None:
        raise Unavailable("Go is not installed (https://go.dev/doc/install): it builds etcd, kube-apiserver and kwok")
    return found


def is_built(group: str) -> bool:
    """Whether the programs of a group are in the cache, or in the assets' folder. Raises Unavailable without Go."""
    return _given(group, PROGRAMS.get(group, group)) is not None or _folder(group).is_dir()


def program(group: str, name: str) -> Path:
    """The built program of a group. Raises Unavailable where neither the assets' folder nor the cache has it."""
    path = _given(group, name) or _folder(group) / name
    if not path.is_file():
        raise Unavailable(f"{name} is not built: run `make cluster-tools`")
    return path


def _given(group: str, name: str) -> Path | None:
    """The program in the assets' folder, which has one version of each."""
    assets = os.environ.get(ASSETS)
    path = Path(assets) / name if assets and group not in NEWER else None
    return path if path is not None and path.is_file() else None


def kwok_stages() -> list[Path]:
    """The stage files that kwok takes as --config."""
    return shipped("kwok")


def shipped(group: str, pattern: str = "*.yaml") -> list[Path]:
    """The files that came with the program of a group. Raises Unavailable as ``program`` does."""
    if group in FILES_ONLY and not _folder(group).is_dir():
        raise Unavailable(f"the files of {group} are not there: run `make cluster-tools`")
    folder = _folder(group) if group in FILES_ONLY else program(group, group).parent
    return sorted((folder / SHIPPED[group][1]).glob(pattern))


def build(groups: Sequence[str] = GROUPS) -> None:
    """Build what is not in the cache; two that run at once wait for each other.

    Raises CalledProcessError where a build fails, Unavailable where there is no Go.
    """
    for group in groups:
        folder = _folder(group)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{group}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                _say(f"{group}: in {folder}")
                continue
            _say(f"{group}: building into {folder}")
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"{group}-", dir=folder.parent) as scratch:
                made = Path(scratch, "made")
                _build(group, made)
                made.rename(folder)
            _say(f"{group}: built in {time.monotonic() - started:.0f} s")


def _build(group: str, folder: Path) -> None:
    folder.mkdir()
    if group in FILES_ONLY:
        _ask_go(group, "mod", "download", SHIPPED[group][0])
    else:
        _compile(group, folder)
    if group in SHIPPED:
        name, into, sources = SHIPPED[group]
        module = Path(_ask_go(group, "list", "-m", "-f", "{{.Dir}}", name))
        (folder / into).mkdir()
        for source in sources:
            for path in sorted((module / source).glob("*.yaml")):
                if path.name != "kustomization.yaml":
                    shutil.copyfile(path, folder / into / path.name)


def _compile(group: str, folder: Path) -> None:
    flags = "-s -w"
    if PROGRAMS.get(group) == "kube-apiserver":  # its version goes in by the linker, else the API server says v0.0.0
        version = re.search(r"\bk8s\.io/kubernetes (v\S+)", (TOOLS / group / "go.mod").read_text())
        assert version, "go.mod requires k8s.io/kubernetes"
        flags += f" -X k8s.io/component-base/version.gitVersion={version[1]}"
    # No more than two packages at once: compilers of this size take more memory than they save time.
    what = "." if _sources(group) else "tool"
    tags = ["-tags", TAGS[group]] if group in TAGS else []
    command = [go(), "build", "-p", "2", "-trimpath", *tags, "-ldflags", flags, "-o", f"{folder}/", what]
    subprocess.run(command, cwd=TOOLS / group, check=True)
    for name, built in GO_NAMES.items():
        if (folder / built).is_file():
            (folder / built).rename(folder / name)


@functools.cache
def _folder(group: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = hashlib.sha256((_ask_go(group, "env", "GOVERSION", "GOOS", "GOARCH") + TAGS.get(group, "")).encode())
    for path in (TOOLS / group / "go.mod", TOOLS / group / "go.sum", *_sources(group)):
        key.update(path.read_bytes())
    return Path(base) / "kai-sched-tools" / f"{group}-{key.hexdigest()[:16]}"


def _sources(group: str) -> list[Path]:
    return sorted((TOOLS / group).glob("*.go"))


def _ask_go(group: str, *arguments: str) -> str:
    answer = subprocess.run([go(), *arguments], cwd=TOOLS / group, check=True, stdout=subprocess.PIPE, text=True)
    return answer.stdout.strip()


def _say(line: str) -> None:
    print(f"cluster tools: {line}", flush=True)


# [GROUP ...] builds these groups, `where GROUP PROGRAM` prints a path, `built GROUP ...` fails if one is not built.
if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["where"]:
            print(program(*sys.argv[2:]))
        elif sys.argv[1:2] == ["built"]:
            sys.exit(not all(map(is_built, sys.argv[2:])))
        else:
            build(sys.argv[1:] or GROUPS)
    except Unavailable as missing:
        sys.exit(f"cluster tools: {missing}")
    except subprocess.CalledProcessError as failure:
        sys.exit(f"cluster tools: {' '.join(failure.cmd)} failed with {failure.returncode}: see above")
