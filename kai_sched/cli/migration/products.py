"""Which versions of other schedulers run: by the images and labels of their Deployments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kai_sched.api import names
from kai_sched.cli.migration.found import APPS, FoundObjects, name_of, part, place_of, texts

KAI = "KAI Scheduler"
KUEUE = "Kueue"
VOLCANO = "Volcano"
YUNIKORN = "YuniKorn"
# What the images of each are called, under whatever registry, and what its Deployments are called.
_IMAGES: Mapping[str, re.Pattern[str]] = {
    KAI: re.compile(r"(^|/)kai-scheduler/[\w.-]+[:@]"),
    KUEUE: re.compile(r"(^|/)kueue[:@]"),
    VOLCANO: re.compile(r"(^|/)vc-[\w.-]+[:@]"),
    YUNIKORN: re.compile(r"(^|/)yunikorn[:@]"),
}
_NAMES: Mapping[str, re.Pattern[str]] = {
    KAI: re.compile("|".join([*sorted(names.ORIGINAL_PARTS), r"kai-scheduler(-.*)?"])),
    KUEUE: re.compile(r"kueue-controller-manager"),
    VOLCANO: re.compile(r"volcano-(scheduler|controllers|admission|agent)(-.*)?"),
    YUNIKORN: re.compile(r"yunikorn-(scheduler|admission-controller)(-.*)?"),
}
# Bounded, as whoever may make a Deployment chooses them.
_VERSION = re.compile(r"v?(?<!\d)(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[\w.]{1,40})?)")
_VERSION_LABELS = ("app.kubernetes.io/version", "helm.sh/chart")
UNKNOWN = "unknown version"


class Product(NamedTuple):
    """A Deployment of another scheduler: its "namespace/name", and the version, "" where nothing says it."""

    name: str
    deployment: str
    version: str


def products(found: FoundObjects) -> list[Product]:
    """The Deployments of other schedulers, without those of kai-sched itself."""
    result = []
    for each in found.of(APPS, "Deployment"):
        containers = part(each, "spec", "template", "spec", "containers")
        containers = [one for one in containers if isinstance(one, Mapping)] if isinstance(containers, list) else []
        images = [str(one.get("image") or "") for one in containers]
        name = _product(name_of(each), images)
        if name and not (name == KAI and any(_is_ours(one) for one in containers)):
            result.append(Product(name, place_of(each), _version(images, texts(each, "metadata", "labels"))))
    return result


def versions_text(found: Iterable[Product]) -> str:
    """Such as "v0.17.0", "v0.16.2 and v0.17.0" or "unknown version"."""
    versions = sorted({f"v{each.version}" for each in found if each.version}, key=_order)
    return " and ".join(versions) or UNKNOWN


def minor(version: str) -> tuple[int, int]:
    """The first two numbers of a version such as "0.17.0"."""
    first, second = version.split(".")[:2]
    return int(first), int(second)


def _order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _product(name: str, images: Iterable[str]) -> str:
    by_image = next((one for one, pattern in _IMAGES.items() if any(pattern.search(image) for image in images)), "")
    return by_image or next((one for one, pattern in _NAMES.items() if pattern.fullmatch(name)), "")


def _is_ours(container: Mapping[str, object]) -> bool:
    # The original's scheduler has no subcommands, only flags.
    arguments = container.get("args")
    return isinstance(arguments, list) and arguments[:1] == ["run"]


def _version(images: Iterable[str], labels: Mapping[str, str]) -> str:
    tags = [image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images]
    for text in (*tags, *(labels.get(label, "") for label in _VERSION_LABELS)):
        if matched := _VERSION.search(text):
            return matched[1]
    return ""
