"""What each Kubernetes version needs switched on for this project's tests. Pure."""

from __future__ import annotations

import re


def gates(minor: int) -> dict[str, bool]:
    """Feature gates, the same for every component."""
    if minor < 34:
        return {"DynamicResourceAllocation": True}
    if minor < 36:
        # Alpha in 1.34 and 1.35: pods may ask for `nvidia.com/gpu` and get a claim.
        return {"DRAExtendedResource": True}
    return {}


def gate_flags(minor: int) -> list[str]:
    chosen = ",".join(f"{name}={str(on).lower()}" for name, on in gates(minor).items())
    return [f"--feature-gates={chosen}"] if chosen else []


def api_flags(minor: int) -> list[str]:
    """Flags of the API server: versions that are not served by default."""
    if minor >= 34:
        return []
    served = ["v1beta1"] if minor == 32 else ["v1beta1", "v1beta2"]
    return [f"--runtime-config={','.join(f'resource.k8s.io/{version}=true' for version in served)}"]


def served_version(minor: int) -> str:
    """The best version of resource.k8s.io that such a server serves."""
    return {32: "v1beta1", 33: "v1beta2"}.get(minor, "v1")


def minor_of(git_version: str) -> int:
    """The minor version in what a server calls itself, for example v1.37.2 or v1.34.4-gke.100."""
    found = re.match(r"v?1\.(\d+)", git_version)
    if found is None:
        raise ValueError(f"{git_version!r} is not a version of Kubernetes")
    return int(found.group(1))
