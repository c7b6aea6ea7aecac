"""The order in which a pool's devices are published, as a lever on the scheduler. Pure.

The scheduler takes the first devices in list order that fit, and passes over those that are taken. So with the mesh that
has the fewest free GPUs in front, a claim for one fills up what is broken already, and a claim that must stay inside a mesh
gets the smallest rest that is large enough; whole meshes stay whole for claims of four and eight.

- A mesh that is fully used is passed over wherever it stands. It stands where it would with all of its GPUs free: that is
  where most go back to, and so a node of single GPUs, and a claim that takes a whole mesh or gives it back, cost no write.
- Inside a mesh the order is that of the PCI addresses, held or not: free ones first would choose the same GPUs and make
  each claim a write.
- A claim for several GPUs without a constraint takes the first free ones wherever they are, and no order serves it and
  the small claims alike. It is the constraint that keeps it together; the order only makes room.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_dra import names
from gpu_dra.device import Device
from gpu_dra.names import DeviceName


def arranged(devices: Sequence[Device], held: Collection[DeviceName]) -> tuple[Device, ...]:
    """The devices mesh by mesh, those meshes first that have the fewest free; `held` are the names that claims hold.

    Among equals the mesh with the lowest PCI address is first. Devices without a mesh come last, in the given order.
    """
    meshes: dict[str, list[Device]] = {}
    others: list[Device] = []
    for device in devices:
        mesh = device.attributes.get("nvlink_mesh_id")
        if mesh is None:
            others.append(device)
        else:
            meshes.setdefault(str(mesh), []).append(device)
    for members in meshes.values():
        members.sort(key=_place)

    def rank(members: Sequence[Device]) -> tuple[int, tuple[str, str]]:
        free = sum(device.name not in held for device in members)
        return free or len(members), _place(members[0])

    return (*(device for members in sorted(meshes.values(), key=rank) for device in members), *others)


def _place(device: Device) -> tuple[str, str]:
    # Written with fixed widths, addresses sort as the bus is walked.
    return str(device.attributes.get(names.PCI_BUS_ID, "")), device.name
