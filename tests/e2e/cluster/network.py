"""The cluster's network: a bridge at the control plane, a veth to each node, routes to the pods of each.

All of it is inside the cluster's network namespaces, so the addresses are the same in every cluster and clash with
nothing. There is no way out: nothing that runs in the cluster reaches the world.
"""

from __future__ import annotations

from collections.abc import Sequence

SERVICES = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
PODS = "10.244.0.0/16"
CONTROL_PLANE = "10.90.0.1"
API_PORT = 6443
API_SERVER = f"https://{CONTROL_PLANE}:{API_PORT}"
CONTROL_PLANE_NAMESPACE = "gd-cp"

_HOST_SETTINGS = """
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
[ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
"""


def node_address(number: int) -> str:
    return f"10.90.0.{10 + number}"


def node_pods(number: int) -> str:
    return f"10.244.{number}.0/24"


def node_namespace(number: int) -> str:
    return f"gd-n{number}"


def setup(numbers: Sequence[int]) -> str:
    """The shell script that makes all of it; to be run in the cluster's mount and network namespace."""
    lines = [
        "set -e",
        f"ip netns attach {CONTROL_PLANE_NAMESPACE} 1",
        _HOST_SETTINGS,
        "ip link add br0 type bridge",
        f"ip addr add {CONTROL_PLANE}/24 dev br0",
        "ip link set br0 up",
    ]
    for number in numbers:
        name, address = node_namespace(number), node_address(number)
        lines += [
            f"ip netns add {name}",
            f"ip link add vn{number} type veth peer name eth0 netns {name}",
            f"ip link set vn{number} master br0 up",
            f"ip route add {node_pods(number)} via {address}",
            # nsenter, not `ip netns exec`: that one mounts a new /sys, without the cgroups.
            f"nsenter --net=/run/netns/{name} sh -e <<'END'",
            _HOST_SETTINGS,
            f"ip addr add {address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {CONTROL_PLANE}",
            *(f"ip route add {node_pods(other)} via {node_address(other)}" for other in numbers if other != number),
            "END",
        ]
    return "\n".join(lines) + "\n"


def cut(number: int) -> list[str]:
    """The command that pulls the node's cable, at the control plane's end so that the node keeps its routes."""
    return ["ip", "link", "set", f"vn{number}", "down"]


def mend(number: int) -> list[str]:
    return ["ip", "link", "set", f"vn{number}", "up"]


def cni(number: int) -> dict[str, object]:
    """The node's CNI configuration. Pods keep their address on the way to other nodes (no masquerading)."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": node_pods(number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "gpu-dra-e2e", "plugins": [bridge, portmap]}
