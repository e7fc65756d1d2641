"""``kai-sched reserve``, what reservation pods run: which device the pod got, how it says so, and what it does where
that fails (API 7.3).

It imports little, as every shared device has such a pod.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.own_pod import OwnPod

FAULT_PAUSE_S = 10.0  # before the process ends with an error, so that the kubelet does not start it over and over
TERMINATION_MESSAGE_MAX = 4096  # bytes that Kubernetes keeps
BACKOFF = Backoff(0.2, 10.0)
# Made-up devices get their UUIDs in this namespace of UUIDs.
FAKE_DEVICES = uuid.UUID("6f4a3c55-2a0f-5a0e-9d51-0a3c8b6e7d21")


class ReservationFault(Exception):
    """The pod cannot hold a device for others; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ReserveOptions:
    """The pod, whether its device is made up, and where the reason of a failure is written."""

    pod: str
    namespace: str
    fake_device: bool
    account: str
    termination_log: str


def reserve(options: ReserveOptions) -> int:
    """Say which device this pod has, then wait for SIGTERM.

    Return the exit status: 0 after a signal, 1 after a fault, which is written to stderr and to the termination log.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The kernel ignores signals that process 1 of a container does not handle.
        signal.signal(number, lambda *_: stopped.set())
    try:
        key = f"{options.namespace}/{options.pod}"
        device = fake_uuid(key) if options.fake_device else visible_uuid()
        report(OwnPod.here(key, account=options.account), device, stopped)
    except (ReservationFault, ValueError) as fault:
        print(f"error: {fault}", file=sys.stderr, flush=True)
        # The kubelet has made the file; where there is none, nobody reads it.
        with suppress(OSError), open(options.termination_log, "r+b") as file:
            file.write(str(fault).encode()[:TERMINATION_MESSAGE_MAX])
            file.truncate()
        stopped.wait(FAULT_PAUSE_S)
        return 1
    stopped.wait()
    return 0


def fake_uuid(key: str) -> str:
    """A UUID for a pod on a node without GPUs, the same each time for the pod "namespace/name"."""
    return f"GPU-{uuid.uuid5(FAKE_DEVICES, key)}"


def visible_uuid() -> str:
    """The UUID of the only device that NVML shows. Raises ReservationFault unless there is exactly one."""
    import pynvml

    return read_uuid(pynvml)


def read_uuid(nvml: Any) -> str:
    """As ``visible_uuid``, of this module of NVML."""
    try:
        nvml.nvmlInit()
        try:
            count = nvml.nvmlDeviceGetCount()
            if count != 1:
                raise ReservationFault(_not_one(count))
            found = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(0))
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        text = (
            f"NVML does not answer: {error}. The driver of NVIDIA has to be visible in this container: set "
            "spec.binder.resourceReservation.runtimeClassName of the Config kai-config to nvidia, or make that "
            "runtime the default one of the node"
        )
        raise ReservationFault(text) from error
    device = found.decode() if isinstance(found, bytes) else str(found)
    if not device:
        raise ReservationFault("NVML knows no UUID of the device: update the driver of NVIDIA on this node")
    return device


def _not_one(count: int) -> str:
    if not count:
        return "no GPU is visible in this container: see whether the device plugin of this node gives pods devices"
    return (
        f"{count} GPUs are visible in this container, and it holds one: see whether the container runtime shows all "
        "devices to containers that did not ask for them (NVIDIA_VISIBLE_DEVICES=all), and turn that off"
    )


def report(pod: OwnPod, device: str, stopped: threading.Event, wait: Callable[[float], object] | None = None) -> None:
    """Write the device into the annotation of the pod unless it is there, however long the API server takes.

    Return when it is written, or when ``stopped`` is set. ``wait`` waits for so many seconds; by default until
    ``stopped``. Raises ReservationFault if another device is written there already.
    """
    pause, rng, failures, last_warning = wait or stopped.wait, random.Random(), 0, ""
    while not stopped.is_set():
        try:
            written = pod.annotations().get(names.RESERVED_DEVICE_ANNOTATION)
            if written and written != device:
                raise ReservationFault(
                    f"the annotation {names.RESERVED_DEVICE_ANNOTATION} names {written}, but this container has "
                    f"{device}: pods that share the device may use another one; delete them and this pod"
                )
            if not written:
                pod.annotate(names.RESERVED_DEVICE_ANNOTATION, device)
        except ApiFailure as failure:
            if str(failure) != last_warning:
                last_warning = str(failure)
                print(f"warning: {last_warning}; it is tried again", file=sys.stderr, flush=True)
            failures += 1
            pause(BACKOFF.wait_s(failures, rng, failure.retry_after_s))
        else:
            print(f"{pod.key} holds {device}", flush=True)
            return
