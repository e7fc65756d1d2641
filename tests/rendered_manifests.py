"""manifests/ as the chart renders it, by the real helm: `make manifests` writes the files.

A template becomes the file of its name: `templates/rbac.yaml` is manifests/rbac.yaml, and `templates/page/rbac.yaml`
manifests/components/page/rbac.yaml. What only Helm has is left out: its labels, the definitions (crds/ has them), and
the ConfigMap with settings, of which the component gpu-sharing has the Config as an object.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.cluster import components
from tests.tree import ROOT

CHART = ROOT / "charts" / "kai-scheduler"
MANIFESTS = ROOT / "manifests"
NOTE = "# Rendered from charts/kai-scheduler by `make manifests`; changes made here are lost.\n"
SOURCE = re.compile(r"^# Source: kai-scheduler/templates/(.+)$", re.MULTILINE)
BASE = ("helmMetadata=false", "crds.install=false", "kaiConfigDeployer.enabled=false", "namespace.create=true")
COMPONENTS = (
    "global.gpuSharing=true",
    "global.clusterAutoscaling=true",
    "page.enabled=true",
    "monitoring.authenticated=true",
)
CONFIG = "components/gpu-sharing/config.yaml"
CONFIG_NOTE = """\
# Reservation pods run the image of the scheduler. docs/gpu-sharing.md says what else can be set, such as the runtime
# class of reservation pods where that of NVIDIA is not the default of the nodes.
"""


def helm(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run helm. Raises Unavailable where it is not built, CalledProcessError where it fails and ``check`` is true."""
    command = [str(components.program("helm", "helm")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"helm {' '.join(arguments)}: {done.stderr}")
    return done


def template(*settings: str) -> str:
    """What the chart renders with these values, as `--set` takes them."""
    values = [word for setting in settings for word in ("--set", setting)]
    return helm("template", "kai-scheduler", str(CHART), "--namespace", "kai-scheduler", *values).stdout


def by_template(text: str) -> dict[str, str]:
    """The documents of each template, in their order."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^---\n", text, flags=re.MULTILINE):
        source = SOURCE.search(part)
        if source:
            found.setdefault(source[1], []).append(SOURCE.sub("", part).strip() + "\n")
    return {name: "---\n".join(parts) for name, parts in found.items()}


def rendered() -> dict[str, str]:
    """The text of each file of manifests/ that is rendered, by its path there."""
    files = {name: text for name, text in by_template(template(*BASE)).items() if "/" not in name}
    with_parts = by_template(template(*BASE, *COMPONENTS))
    files |= {f"components/{name}": text for name, text in with_parts.items() if "/" in name}
    settings = yaml.safe_load(by_template(template("global.gpuSharing=true"))["settings.yaml"].split("---\n")[0])
    files[CONFIG] = CONFIG_NOTE + settings["data"]["config.yaml"]
    return {name: NOTE + text for name, text in sorted(files.items())}


def differences() -> Iterator[str]:
    """The files of manifests/ that are not as the chart renders them."""
    for name, text in rendered().items():
        path = MANIFESTS / name
        if not path.is_file() or path.read_text() != text:
            yield name


def main() -> None:
    """Write all files."""
    for name, text in rendered().items():
        Path(MANIFESTS / name).write_text(text)


if __name__ == "__main__":
    main()
