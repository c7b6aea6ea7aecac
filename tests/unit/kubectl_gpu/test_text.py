"""What people read: the fleet's table, the matrix, the tree."""

from __future__ import annotations

import json

import pytest
import yaml

from gpu_dra.gpu_node import GpuEntry, GpuNode
from gpu_dra.pcie import Place
from kubectl_gpu import document, matrix, status, table, tree
from tests.unit.kubectl_gpu.nodes import pasted, split

EMPTY = GpuNode("gpu-b", reason="the NVIDIA kernel driver is not loaded")


def test_the_table_of_the_fleet() -> None:
    assert "\n".join(status.lines([split(), EMPTY])) == (
        "NODE      GPUS   FREE   HELD   UNHEALTHY   MODEL            MESHES   NICS   DRIVER\n"
        "gpu-a        8      2      5           1   H100-SXM5-80GB   4+3      8      580.105.08\n"
        "  GPU 6 0000:68:00.0: lost\n"
        "  NIC 0000:99:00.0 is left out\n"
        "gpu-b        0      0      0           0   -                -        0      -\n"
        "  nothing is offered: the NVIDIA kernel driver is not loaded\n"
        "2 nodes      8      2      5           1                             8"
    )


def test_the_wide_table_tells_what_is_free_in_each_mesh() -> None:
    head, line, *_ = status.lines([split()], wide=True)
    assert head.endswith("CUDA   NUMA   FREE BY MESH")
    assert line.split()[-3:] == ["13.0", "2", "0+2"]


def test_a_fleet_without_nodes() -> None:
    assert list(status.lines([])) == [
        "No node has a GpuNode: the node agent runs nowhere yet (kubectl get pods -A -l app.kubernetes.io/name=gpu-dra)."
    ]


def test_the_matrix() -> None:
    assert "\n".join(matrix.lines(pasted("l40s-4"))) == (
        "        GPU0  GPU1  GPU2  GPU3  mlx5_0  mlx5_1  NUMA\n"
        "GPU0     X    NODE  SYS   SYS   SYS     SYS     0\n"
        "GPU1    NODE   X    SYS   SYS   SYS     SYS     0\n"
        "GPU2    SYS   SYS    X    NODE  NODE    NODE    1\n"
        "GPU3    SYS   SYS   NODE   X    NODE    NODE    1\n"
        "mlx5_0  SYS   SYS   NODE  NODE   X      PIX     1\n"
        "mlx5_1  SYS   SYS   NODE  NODE  PIX      X      1\n"
        "\n"
        "PIX below one PCIe switch; NODE several host bridges of one NUMA node; SYS between NUMA nodes"
    )


@pytest.mark.parametrize(
    ("word", "code"), [("NV18", 32), ("PIX", 36), ("PXB", 36), ("PHB", 33), ("NODE", 33), ("SYS", 31)]
)
def test_colours_change_no_place(word: str, code: int) -> None:
    node = GpuNode("n", (GpuEntry(0, "a", "", ""), GpuEntry(1, "b", "", "")), (), (("X", word), (word, "X")))
    coloured = "\n".join(matrix.lines(node, colour=True))
    assert f"\x1b[{code}m{word}\x1b[0m" in coloured
    plain = coloured.replace(f"\x1b[{code}m", "").replace("\x1b[0m", "")
    assert plain == "\n".join(matrix.lines(node))


def test_a_node_that_tells_no_links() -> None:
    assert list(matrix.lines(GpuNode("n", (GpuEntry(0, "a", "", ""),)))) == ["The agent of this node tells no links."]


def test_the_tree() -> None:
    node = split()
    shown = list(tree.lines(node))
    assert shown[:8] == [
        "NUMA node 0",
        "  pci0000:05",
        "    GPU 0       0000:08:00.0   mesh-0   H100-SXM5-80GB          held by team-a/train",
        "    mlx5_0      0000:09:00.0            ConnectX-7 400 Gbit/s   held by team-a/train",
        "  pci0000:15",
        "    GPU 1       0000:18:00.0   mesh-0   H100-SXM5-80GB          held by team-a/train",
        "    mlx5_1      0000:19:00.0            ConnectX-7 400 Gbit/s   free",
        "  pci0000:25",
    ]
    assert shown[-8:] == [
        "  pci0000:65",
        "    GPU 6       0000:68:00.0   mesh-1   H100-SXM5-80GB          lost",
        "    mlx5_6      0000:69:00.0            ConnectX-7 400 Gbit/s   free",
        "  pci0000:75",
        "    GPU 7       0000:78:00.0            H100-SXM5-80GB          2 MIG devices, 1 free",
        "      1g.10gb                           mig-0                   held by team-b/small",
        "      1g.10gb                           mig-1                   free",
        "    mlx5_7      0000:79:00.0            ConnectX-7 400 Gbit/s   free",
    ]
    assert tree.heading(node) == "gpu-a: 8 GPUs H100-SXM5-80GB, 8 NICs, driver 580.105.08"


def test_a_pasted_table_claims_to_know_no_more_than_it_does() -> None:
    assert "\n".join(tree.lines(pasted("dgx1-v100"))) == (
        "NUMA node unknown\n"
        "  PCIe root unknown\n"
        "    GPU 0    mesh-0\n"
        "    GPU 1    mesh-0\n"
        "  one PCIe root\n"
        "    GPU 2    mesh-0\n"
        "    GPU 3    mesh-0\n"
        "    mlx5_0\n"
        "  PCIe root unknown\n"
        "    GPU 4    mesh-1\n"
        "    GPU 5    mesh-1\n"
        "    GPU 6    mesh-1\n"
        "    GPU 7    mesh-1"
    )
    assert "ok" not in json.dumps(document.topology(pasted("dgx1-v100")))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("two-mesh-4x4-synthetic", ["2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-7"]),
        ("dgx-a100", ["1 mesh: mesh-0 = GPU 0-7"]),
        ("a100-pcie-pairs", ["2 meshes: mesh-0 = GPU 0,1, mesh-1 = GPU 2,3"]),
        ("l40s-4", ["4 meshes of one GPU each: no NVLink joins them."]),
        (
            "dgx1-v100",
            [
                "2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-7",
                (
                    "NVLink also joins GPUs of two meshes: "
                    "GPU 0 and 4 (NV2), GPU 1 and 5 (NV2), GPU 2 and 6 (NV1), GPU 3 and 7 (NV1)"
                ),
            ],
        ),
    ],
)
def test_the_meshes_in_one_line(name: str, wanted: list[str]) -> None:
    assert list(tree.meshes(pasted(name))) == wanted


def test_a_node_without_gpus_has_no_meshes() -> None:
    assert list(tree.meshes(EMPTY)) == ["No meshes: no whole GPU is here."]
    assert list(tree.lines(EMPTY)) == []


def test_the_document_of_a_topology() -> None:
    data = document.topology(split())
    assert set(data) == {"node", "gpus", "nics", "meshes", "links"}
    assert data["node"] == "gpu-a"
    assert data["meshes"] == [[0, 1, 2, 3], [4, 5, 6]]
    assert len(data["links"]) == 16
    assert data["links"][0][:5] == ["X", "NV6", "NV6", "NV6", "SYS"]
    assert data["gpus"][0]["claims"] == ["team-a/train"]
    assert json.loads(document.dump(data, "json")) == data
    assert yaml.safe_load(document.dump(data, "yaml")) == data


def test_the_document_of_the_fleet() -> None:
    data = document.status([split(), EMPTY])
    assert data["total"] == {"nodes": 2, "gpus": 8, "free": 2, "held": 5, "unhealthy": 1, "nics": 8}
    assert data["nodes"][0]["meshes"] == [[0, 1, 2, 3], [4, 5, 6]]
    assert data["nodes"][1]["reason"] == "the NVIDIA kernel driver is not loaded"


def test_control_characters_of_a_cluster_do_not_reach_the_terminal() -> None:
    bad = "\x1b[2J\rfree"
    node = GpuNode(
        bad,
        (GpuEntry(0, bad, bad, bad, mesh=bad, health=bad, place=Place(bad, 0)), GpuEntry(1, "u", "", "", mesh=bad)),
        (),
        (("X", bad), (bad, "X")),
        reason=bad,
        problems=(bad,),
    )
    for lines in (
        status.lines([node], wide=True), matrix.lines(node), tree.lines(node), tree.meshes(node), [tree.heading(node)],
    ):  # fmt: skip
        assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2, 3], "0-3"), ([5, 0, 1, 2, 7], "0-2,5,7")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert table.ranges(numbers) == text
