"""The configuration files of a node's programs. Pure: paths and numbers in, text out (JSON is YAML)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cluster import features, network
from tests.e2e.cluster.pki import Pki

PAUSE = "localhost/pause:e2e"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


def containerd(cni_folder: Path) -> str:
    """containerd.toml. restrict_oom_score_adj, because runc fails without CAP_SYS_RESOURCE otherwise."""
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{cni_folder}"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"""


def kubelet(number: int, *, pki: Pki, cgroup: str, minor: int) -> str:
    name = network.node_namespace(number)
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": pki.cert("ca")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki.cert(name),
        "tlsPrivateKeyFile": pki.key(name),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        # Two kubelets with one root kill each other's pods.
        "cgroupRoot": cgroup,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # The disk and memory are the machine's: what others do with them shall not evict pods here.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "5s",
        # A node that is cut off shall be noticed in seconds (the controller-manager's grace period is 10 s).
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 10,
        "featureGates": features.gates(minor),
    }
    return json.dumps(config, indent=1)


def kube_proxy(number: int, kubeconfig: Path) -> str:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": network.node_namespace(number),
        "clusterCIDR": network.PODS,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        # These are settings of the whole machine, not of the node's network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return json.dumps(config, indent=1)
