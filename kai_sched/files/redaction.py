"""What leaves a cluster in a dump or a snapshot archive, and what stays: Secrets, values of environment variables,
commands and contents of ConfigMaps are taken out; whatever decides is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_sched.api import names

Manifest = Mapping[str, Any]

SECRET = ("v1", "Secret")
CONFIG_MAP = ("v1", "ConfigMap")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields that no decision needs, wherever they stand, and in which passwords and tokens are found.
_LISTS = frozenset({"command", "args"})
_MAPPINGS = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "gcsFaultToleranceOptions"})
_TEXTS = frozenset({"entrypoint", "runtimeEnv", "runtimeEnvYAML", "serveConfigV2", "redis-password"})
# Their keys are names that people chose.
_NAMED = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "data"})


def redacted(manifest: Manifest, kinds_config_map: str = "") -> dict[str, Any] | None:
    """The object without what is nobody's business; None for a Secret. ``manifest`` is not changed.

    Parameters
    ----------
    manifest
        The object with its apiVersion and kind.
    kinds_config_map
        The ConfigMap ("namespace/name") with settings for kinds of workloads, which keeps its data.
    """
    kind = (manifest.get("apiVersion"), manifest.get("kind"))
    if kind == SECRET:
        return None
    # Statuses have none of these fields, and are large.
    found = _mapping({key: value for key, value in manifest.items() if key != "status"})
    if "status" in manifest:
        found["status"] = manifest["status"]
    meta = found.get("metadata")
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
    if kind == CONFIG_MAP:
        named = meta if isinstance(meta, dict) else {}
        if f"{named.get('namespace')}/{named.get('name')}" != kinds_config_map:
            used = _used(named, found.pop("data", None))
            if used:
                found["data"] = used
        found.pop("binaryData", None)
    return found


def _used(meta: Mapping[str, Any], data: Any) -> dict[str, str]:
    """What queues used in the past, where this is the ConfigMap of a scheduler that says it."""
    is_usage = meta.get("namespace") == names.NAMESPACE and str(meta.get("name")).endswith(names.PAST_USAGE_SUFFIX)
    text = data.get(names.PAST_USAGE_KEY) if is_usage and isinstance(data, Mapping) else None
    return {names.PAST_USAGE_KEY: text} if isinstance(text, str) else {}


def _mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, str):
            if key not in _TEXTS:
                found[key] = value
        elif isinstance(value, list):
            if key not in _LISTS:
                found[key] = _list(key, value)
        elif not isinstance(value, Mapping):
            found[key] = value
        elif key in _NAMED:
            found[key] = {name: text for name, text in value.items() if name != LAST_APPLIED}
        elif key not in _MAPPINGS:
            found[key] = _mapping(value)
    return found


def _list(key: str, value: list[Any]) -> list[Any]:
    if key == "env":
        return [each for each in map(_variable, value) if each]
    if key == "envFrom":
        sources = [each.get("configMapRef") for each in value if isinstance(each, Mapping)]
        return [{"configMapRef": each} for each in sources if each]
    return [_mapping(each) if isinstance(each, Mapping) else each for each in value]


def _variable(variable: Any) -> dict[str, Any]:
    """A variable of a ConfigMap, which has to be there before the pod gets a node; {} for any other."""
    source = variable.get("valueFrom") if isinstance(variable, Mapping) else None
    reference = source.get("configMapKeyRef") if isinstance(source, Mapping) else None
    if not reference:
        return {}
    return {"name": variable.get("name"), "valueFrom": {"configMapKeyRef": reference}}
