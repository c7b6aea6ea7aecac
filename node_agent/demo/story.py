"""What the demo does, step by step, and says: publish, schedule, prepare, show, unprepare."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_dra.allocator import Refusal
from gpu_dra.errors import GpuDraError
from gpu_dra.names import GPU_DRIVER, NIC_DRIVER
from gpu_dra.resource_claim import Request, ResourceClaim
from node_agent.demo import example, text
from node_agent.demo.example import Example, Pod
from node_agent.demo.machine import NODE, Driver, Machine
from node_agent.inventory import Item

_WIDTH: Final = 96
_MESH: Final = f"{GPU_DRIVER}/nvlink_mesh_id"


class NotServed(GpuDraError):
    """The example's pod would stay Pending on this node; the text says why."""


@dataclass(frozen=True, slots=True)
class Story:
    """Tells the run of an example on a machine, through `say`, line by line."""

    machine: Machine
    example: Example
    profile: str
    say: Callable[[str], None]

    async def tell(self) -> None:
        """The whole of it. NotServed where the node cannot serve the example."""
        self._introduce()
        self._published()
        early = self._small_job()
        if early is not None:
            await self._run(Pod("small-job", (early.name,)), {early.name: early}, brief=True)
        for pod in self.example.pods:
            await self._run(pod, self.example.claims, brief=False)
        await self._end([*([early] if early is not None else []), *self.example.claims.values()])

    def _introduce(self) -> None:
        gpus, nics = (self.machine.drivers[name].inventory for name in (GPU_DRIVER, NIC_DRIVER))
        self._title(f"The node: {NODE}, simulated by the profile {self.profile}")
        groups = text.meshes(gpus)
        sizes = ", ".join(f"{len(items)} in {mesh}" for mesh, items in groups.items())
        self._prose(
            f"{len(gpus.items)} GPUs in {len(groups)} NVLink mesh{'es' if len(groups) > 1 else ''} ({sizes})."
            " Inside a mesh every GPU talks to every other over NVLink; between meshes there is only PCIe."
        )
        self._show(text.node(gpus, nics))

    def _published(self) -> None:
        self._title("The agent publishes what it found")
        self._prose("A ResourceSlice for each driver, stored in the API server. In short, the one of the GPUs:")
        for item in self.machine.drivers[GPU_DRIVER].slices.stored.values():
            self._show(text.short_slice(item))

    def _small_job(self) -> ResourceClaim | None:
        """Where the example is about meshes, one GPU goes to somebody else first, so that the choice matters."""
        if not any(each.attribute == _MESH for claim in self.example.claims.values() for each in claim.constraints):
            return None
        first = [self.example.claims[name] for name in self.example.pods[0].claims]
        if isinstance(self.machine.claims.would_get(first, self.machine.published), Refusal):
            return None
        claim = example.made({"apiVersion": "resource.k8s.io/v1", "spec": {}}, "small-job")
        return replace(claim, requests=(Request("gpu", "gpu.nvidia.com"),))

    async def _run(self, pod: Pod, known: Mapping[str, ResourceClaim], *, brief: bool) -> None:
        self._title(f"A small job comes first: pod {pod.name}" if brief else f"{self.example.file}: pod {pod.name}")
        claims = [known[name] for name in pod.claims]
        if not brief and pod is self.example.pods[0]:
            self._show(text.about(self.example.about, _WIDTH - 4))
        for claim in claims:
            self._prose(f"Its claim {claim.name} asks for")
            self._show(text.asked(claim))
            self._counted(claim)
        again = self.machine.claims.holds(claims)
        got = self.machine.claims.schedule(claims, self.machine.published)
        if isinstance(got, Refusal):
            raise NotServed(f"{self.example.file} does not fit the node: pod {pod.name} would stay Pending, as {got}")
        items = [item for claim in got for item in self._items(claim)]
        ids = await self._prepare(got)
        if again:
            self._prose(
                f"It is allocated already: {self._listed(items)}. Asked again, the agent gives the same answer:"
            )
            self._show(ids)
            return
        self._prose(f"The scheduler gives it {self._listed(items)}.{self._links(items)}")
        if not brief:
            self._handed_out(got, ids)

    def _handed_out(self, claims: Sequence[ResourceClaim], ids: Sequence[str]) -> None:
        """What the kubelet got, what the agent wrote for the runtime, and what that makes of a container."""
        self._prose("The kubelet calls NodePrepareResources on the agent's socket; the agent answers with CDI ids:")
        self._show(ids)
        specs: list[dict[str, Any]] = []
        for claim in claims:
            for driver in self._drivers(claim):
                file = driver.cdi_file(claim.uid)
                specs.append(json.loads(file.read_text()))
                self._prose(f"For the container runtime it has written {file.name}:")
                self._show(text.cdi_file(specs[-1]))
        self._prose("So the container gets")
        self._show(text.container(specs))

    def _counted(self, claim: ResourceClaim) -> None:
        """What a plugin that only counts would have handed out."""
        if not any(each.attribute == _MESH for each in claim.constraints):
            return
        counted = self.machine.claims.would_get([replace(claim, constraints=())], self.machine.published)
        if not isinstance(counted, Refusal):
            items = self._items(counted[0])
            self._prose(f"A plugin that only counts would give it {self._listed(items)}.{self._links(items)}")

    async def _prepare(self, claims: Sequence[ResourceClaim]) -> list[str]:
        ids: list[str] = []
        for name, driver in self.machine.drivers.items():
            ours = [claim for claim in claims if any(result.driver == name for result in claim.allocated or ())]
            if ours:
                ids += [each for found in (await driver.plugin.prepare(ours)).values() for each in found]
        return ids

    async def _end(self, claims: Sequence[ResourceClaim]) -> None:
        self._title("The pods end")
        for driver in self.machine.drivers.values():
            await driver.plugin.unprepare(claims)
        for claim in claims:
            self.machine.claims.delete(claim)
        left = {
            what: sum(driver.leftovers()[what] for driver in self.machine.drivers.values())
            for what in next(iter(self.machine.drivers.values())).leftovers()
        }
        self._prose(
            "The kubelet calls NodeUnprepareResources. Left on the node: "
            + ", ".join(f"{count} {what}" for what, count in left.items())
            + "."
        )

    def _items(self, claim: ResourceClaim) -> list[Item]:
        return [self.machine.drivers[each.driver].inventory.items[each.device] for each in claim.allocated or ()]

    def _drivers(self, claim: ResourceClaim) -> list[Driver]:
        named = {result.driver for result in claim.allocated or ()}
        return [driver for name, driver in self.machine.drivers.items() if name in named]

    def _listed(self, items: Sequence[Item]) -> str:
        meshes = text.by_mesh(items)
        return " ".join(text.nodes_of(item) for item in items) + (f" ({meshes})" if meshes else "")

    def _links(self, items: Sequence[Item]) -> str:
        gpus = [item for item in items if item.device.attributes.get("type") == "gpu"]
        return f" NVLink joins {text.linked(gpus, self.machine.reading)}." if len(gpus) > 1 else ""

    def _title(self, words: str) -> None:
        self.say("")
        self.say(words)
        self.say("-" * len(words))

    def _prose(self, words: str) -> None:
        for line in textwrap.wrap(words, _WIDTH, break_on_hyphens=False):
            self.say(line)

    def _show(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.say(f"  {line}")
