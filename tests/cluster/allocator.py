"""Whether the allocator of Kubernetes would allocate claims for devices as they are: tools/allocator asks it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence

from tests.cluster import components
from tests.cluster.client import Client, Object
from tests.cluster.control_plane import FEATURES

TIMEOUT_S = 60.0
READ = {"nodes": "Node", "classes": "DeviceClass", "slices": "ResourceSlice", "claims": "ResourceClaim"}


def refused(objects: Mapping[str, Sequence[Object]]) -> dict[str, str]:
    """Why allocations would not be made, by namespace and name of the claim; "" for those that would.

    ``objects`` has those of the kinds in READ. Each claim with an allocation is judged beside all others.
    """
    command = [str(components.program("allocator", "allocator"))]
    content = json.dumps({"features": FEATURES, **objects})
    done = subprocess.run(command, input=content, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return {each["claim"]: each.get("reason", "") for each in json.loads(done.stdout)}


def accepted(client: Client) -> int:
    """How many claims have an allocation. Raises AssertionError where one of them would not get it."""
    reasons = refused({part: client.list(kind) for part, kind in READ.items()})
    assert not any(reasons.values()), {claim: reason for claim, reason in reasons.items() if reason}
    return len(reasons)
