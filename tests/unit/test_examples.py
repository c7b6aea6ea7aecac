"""Every example is valid, is served on the profiles that its head comment names, and stands in the README's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from kubernetes_validate import validate

from node_agent import profile as profiles
from node_agent.demo import example, machine
from node_agent.demo.__main__ import main

FILES = sorted(example.EXAMPLES.glob("*.yaml"))
WANTED = {
    "one-gpu",
    "shared-by-containers",
    "shared-by-pods",
    "cel-selector",
    "one-mesh",
    "gpu-and-nic",
    "all-gpus",
    "extended-resource",
}
ALL_PROFILES = sorted(path.stem for path in (Path(profiles.__file__).parent / "profiles").glob("*.yaml"))


def fits(file: Path) -> list[str]:
    found = re.search(r"^# Profiles: (.+)$", file.read_text(), re.MULTILINE)
    assert found, f"{file.name} has no line `# Profiles:`"
    return found.group(1).split(", ")


def test_all_are_there() -> None:
    assert {file.stem for file in FILES} == WANTED


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_valid_for_the_api(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# ")
    assert "\n# Needs: " in text
    assert "\n# Expect: " in text
    for obj in yaml.safe_load_all(text):
        validate(obj, "1.37", strict=True)
        if obj["kind"] == "Pod":
            assert {container["image"] for container in obj["spec"]["containers"]} == {"busybox"}
            assert obj["spec"]["terminationGracePeriodSeconds"] <= 5


@pytest.mark.parametrize("profile", ALL_PROFILES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_served_where_it_says(file: Path, profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([file.stem, "--profile", profile])
    shown = capsys.readouterr()
    assert (code, shown.err) == (0, "") if profile in fits(file) else code == 1, shown.err


def test_the_readme_tells_the_same() -> None:
    rows = re.findall(
        r"^\| \[(\S+)\.yaml\]\(\1\.yaml\) \| .+ \| (.+) \|$", (example.EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    assert {name: named.split(", ") for name, named in rows} == {file.stem: fits(file) for file in FILES}


async def test_gpu_and_nic_sit_on_one_numa_node(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with machine.start("l40s-4", tmp_path_factory.mktemp("d")) as node:
        loaded = example.load("gpu-and-nic", machine.CLASSES)
        got = node.claims.schedule(list(loaded.claims.values()), node.published)
        assert isinstance(got, list)
        results = got[0].allocated or ()
        assert [each.driver for each in results] == ["gpu.nvidia.com", "nic.gpu-dra.io"]
        items = [node.drivers[each.driver].inventory.items[each.device] for each in results]
        assert [item.device.attributes["numa_node"] for item in items] == [1, 1]
