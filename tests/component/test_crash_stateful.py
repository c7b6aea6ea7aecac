"""Any sequence of Prepare, Unprepare, restarts, reboots and kill -9 by two agents on one node, held against a fake."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_dra.errors import GpuDraError
from tests.component.agents import CLAIMS, Agent, files, left, started
from tests.component.crashing import Crasher, Run
from tests.fakes.claims import NODE, FakeClaimStore, FakeDisk

STEPS = 40
"""More file-system operations than any run takes; one that is not reached means that the run ends alive."""

names = st.sampled_from(sorted(CLAIMS))
agents = st.sampled_from([0, 1])


class Node(RuleBasedStateMachine):
    """One node: its folders, two agents of a rolling update, and a fake store that never crashes."""

    crasher: ClassVar[Crasher]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-dra-"))
        self.runner = asyncio.Runner()
        self.disk = FakeDisk()
        self.boot = 1
        self.unknown: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.agents = [self._do(started(self.folder, self.boot, self.unknown)) for _ in range(2)]
        store = FakeClaimStore(NODE.driver, self.disk)
        self.model = Agent(store, self.boot, self.unknown)
        self._do(self.model.repair(store.open()))

    @rule(name=names, which=agents)
    def prepare(self, name: str, which: int) -> None:
        got, wanted = (self._outcome(agent.prepare(name)) for agent in (self.agents[which], self.model))
        assert got == wanted

    @rule(name=names, which=agents)
    def unprepare(self, name: str, which: int) -> None:
        for agent in (self.agents[which], self.model):
            self._do(agent.unprepare(name))

    @rule(which=agents)
    def restart(self, which: int) -> None:
        self.agents[which] = self._do(started(self.folder, self.boot, self.unknown))

    @rule(keeps_cdi_files=st.booleans(), step=st.integers(1, STEPS))
    def reboot(self, keeps_cdi_files: bool, step: int) -> None:
        """The folder of CDI files is on tmpfs on most nodes, not on all. The first start may crash."""
        self.boot += 1
        if not keeps_cdi_files:
            shutil.rmtree(self.folder / "cdi")
        self.crasher.run(Run(str(self.folder), "start", "", self.boot, tuple(self.unknown), step))
        self.start()

    @rule(name=names)
    def forget(self, name: str) -> None:
        """Pod and claim are deleted by force: the API server no longer knows it, and no Unprepare comes."""
        self.unknown.add(name)
        for agent in (*self.agents, self.model):
            agent.claims.claims.pop(f"default/{name}", None)

    @precondition(lambda self: self.unknown)
    @rule()
    def everything_is_known_again(self) -> None:
        self.unknown.clear()
        self.start()

    @rule(action=st.sampled_from(["prepare", "unprepare", "start"]), name=names, step=st.integers(1, STEPS))
    def crash(self, action: str, name: str, step: int) -> None:
        self.crasher.run(Run(str(self.folder), action, name, self.boot, tuple(self.unknown), step))
        self.start()
        # Either is right for the claim at hand, and for one whose place it takes; the rest must be as before.
        for other in (name, *self.unknown):
            if files(self.folder).load(self.model.refs[other].uid) is None:
                self._do(self.model.unprepare(other))
        if files(self.folder).load(self.model.refs[name].uid) is not None:
            self._do(self.model.prepare(name))

    @invariant()
    def what_is_kept_is_what_a_store_that_never_crashes_keeps(self) -> None:
        for ref in self.model.refs.values():
            assert files(self.folder).load(ref.uid) == self.model.store.load(ref.uid)

    @invariant()
    def no_device_is_held_by_two_claims(self) -> None:
        kept = [files(self.folder).load(ref.uid) for ref in self.model.refs.values()]
        held = [device for claim in kept if claim is not None for device in claim.reserved]
        assert sorted(held) == sorted(set(held))

    @invariant()
    def each_prepared_claim_and_no_other_has_its_cdi_file(self) -> None:
        found = {path.name: path.read_bytes() for path in (self.folder / "cdi").glob("*.json")}
        assert found == self.disk.cdi

    def teardown(self) -> None:
        try:
            for name in CLAIMS:
                self._do(self.agents[0].unprepare(name))
            self.restart(0)
            assert left(self.folder) == []
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def _outcome(self, work: Coroutine[Any, Any, Any]) -> object:
        try:
            return self._do(work)
        except GpuDraError as problem:
            return str(problem)


@pytest.fixture(autouse=True, scope="module")
def crasher() -> Iterator[None]:
    with Crasher() as running:
        Node.crasher = running
        yield


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
