"""kill -9 at any step: whatever a dead agent left, the next one serves, releases or repairs every claim."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from node_agent.ports import DeviceHeld
from tests.component.agents import Agent, cdi_file, files, left, started
from tests.component.crashing import Crasher, Run

FEWEST = 12
"""File-system operations that even the shortest of the runs below takes; fewer would mean that they are not counted."""

RUNS = {
    "first start and prepare": Run("", "prepare", "one"),
    "prepare again": Run("", "prepare", "one"),
    "unprepare": Run("", "unprepare", "one"),
    "start after a reboot": Run("", "start", boot=2),
    "prepare in place of a claim that is gone": Run("", "prepare", "one", unknown=("two",)),
    "start over a CDI file of no claim": Run("", "start"),
}


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    with Crasher() as running:
        yield running


async def make(name: str, folder: Path) -> None:
    """What the run of this name finds."""
    folder.mkdir()
    if name == "first start and prepare":
        return
    agent = await started(folder)
    await agent.prepare("two" if name == "prepare in place of a claim that is gone" else "one")
    if name == "prepare again":
        cdi_file(folder, "one").unlink()
    if name == "start over a CDI file of no claim":
        (folder / "state/claims/uid-of-one.json").unlink()


async def expected(folder: Path, boot: int) -> tuple[object, bytes]:
    """The answer for claim `one` and its CDI file where nothing ever crashes."""
    folder.mkdir()
    agent = await started(folder, boot)
    return await agent.prepare("one"), cdi_file(folder, "one").read_bytes()


def orphans(folder: Path) -> set[str]:
    """Claims that have a CDI file and are not kept."""
    return {
        name
        for name in ("one", "two")
        if cdi_file(folder, name).exists() and not (folder / f"state/claims/uid-of-{name}.json").exists()
    }


async def recovers(before: Path, crashed: Path, run: Run, answer: object, spec: bytes) -> None:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(crashed, crashed.with_name(f"{crashed.name}-{name}"), symlinks=True))

    for path in (crashed / "cdi").glob("*.json"):
        assert json.loads(path.read_bytes())["cdiVersion"], path
    # Another agent may be running on, and only a start removes CDI files of no kept claim.
    assert orphans(crashed) <= orphans(before)

    if (crashed / "cdi").is_dir():
        other = copy("other")
        await knows_what_is_kept(other, Agent(files(other), run.boot, run.unknown))

    again = copy("prepare")
    agent = await started(again, run.boot, run.unknown)
    assert [path for path in left(again) if ".tmp-" in path] == []
    assert await agent.prepare("one") == answer
    assert cdi_file(again, "one").read_bytes() == spec
    await released(again, agent)

    gone = copy("unprepare")
    await released(gone, await started(gone, run.boot, run.unknown))


async def knows_what_is_kept(folder: Path, other: Agent) -> None:
    """An agent that ran all along gives a device to another claim only if it would not find the first one kept."""
    kept = [name for name in ("one", "two") if (folder / f"state/claims/uid-of-{name}.json").exists()]
    known = [name for name in kept if f"default/{name}" in other.claims.claims]
    if known:
        with pytest.raises(DeviceHeld, match=f"default/{known[0]}"):
            await other.prepare("three")
    else:
        await other.prepare("three")


async def released(folder: Path, agent: Agent) -> None:
    for name in ("one", "two"):
        await agent.unprepare(name)
    assert left(folder) == []
    await agent.prepare("three")


@pytest.mark.parametrize("name", RUNS)
async def test_an_agent_that_is_killed_at_any_step_leaves_what_the_next_one_can_go_on_with(
    name: str, tmp_path: Path, crasher: Crasher
) -> None:
    run = RUNS[name]
    await make(name, tmp_path / "before")
    answer, spec = await expected(tmp_path / "expected", run.boot)
    number = 0
    for number in itertools.count(1):
        folder = Path(shutil.copytree(tmp_path / "before", tmp_path / str(number), symlinks=True))
        if crasher.run(Run(str(folder), run.action, run.claim, run.boot, run.unknown, number)):
            break
        await recovers(tmp_path / "before", folder, run, answer, spec)
    assert number > FEWEST


@pytest.mark.parametrize("lost", ["", "held/gpu-b"])
async def test_another_agent_that_gives_a_device_away_during_the_start_is_not_forgotten(
    lost: str, tmp_path: Path, crasher: Crasher
) -> None:
    before = tmp_path / "before"
    await (await started(before)).prepare("one")
    if lost:
        (before / "state" / lost).unlink()
    number = 0
    for number in itertools.count(1):
        folder = Path(shutil.copytree(before, tmp_path / str(number), symlinks=True))
        if crasher.run(Run(str(folder), "start", step=number, overtaken=True)):
            break
        await knows_what_is_kept(folder, Agent(files(folder)))
    assert number > 4
