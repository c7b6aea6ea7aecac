"""Names on the wire, each written once. A qualified name is DOMAIN/ID; a bare ID belongs to the slice's driver."""

from __future__ import annotations

from typing import Final, NewType

ClaimUid = NewType("ClaimUid", str)
DeviceName = NewType("DeviceName", str)
PoolName = NewType("PoolName", str)

GPU_DRIVER: Final = "gpu.nvidia.com"
NIC_DRIVER: Final = "nic.gpu-dra.io"
API_GROUP: Final = "gpu-dra.io"
RESOURCE_GROUP: Final = "resource.k8s.io"

# The standard attributes (k8s.io/dynamic-resource-allocation/deviceattribute), and the name that released dranet
# publishes in place of the standard one: a constraint over GPUs and its NICs needs one name that both carry.
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
DRANET_NUMA_NODE: Final = "dra.net/numaNode"

DOUBT_TAINT: Final = f"{API_GROUP}/doubt"
"""The taint of a device that may not work; its value is a word that says why."""

MAX_ATTRIBUTES: Final = 32
"""Attributes and capacities together, a device (API limit)."""
MAX_STRING: Final = 64
"""Bytes of a string or version attribute (API limit)."""
MAX_DEVICES_PER_SLICE: Final = 64
"""The API allows 128, but only 64 once a device carries a taint or consumes counters; staying below never re-chunks."""


def pool_name(node: str, kind: str) -> PoolName:
    """`<node>/<kind>`: schedulers from 1.34 to 1.36 key caches by pool name alone, so drivers must not share one."""
    return PoolName(f"{node}/{kind}")
