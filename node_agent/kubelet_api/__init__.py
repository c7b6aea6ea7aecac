"""The kubelet's plugin protocol on the wire: messages and the names of services and methods.

Two versions of the DRA service differ in nothing that this agent sends or reads but their name, so one set of messages
serves both; `kubelet_pb2.py` is made from `kubelet.proto` by `make protocol`.
"""

from __future__ import annotations

from typing import Final

from node_agent.kubelet_api.kubelet_pb2 import (
    Claim,
    Claims,
    Empty,
    InfoRequest,
    PluginInfo,
    PrepareResponse,
    RegistrationStatus,
    UnprepareResponse,
)

REGISTRATION: Final = "pluginregistration.Registration"
DRA_SERVICES: Final = ("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin")
SUPPORTED: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""What the registration names; kubelet takes the first that it knows, and 1.32 and 1.33 know only the second."""
PLUGIN_TYPE: Final = "DRAPlugin"

__all__ = [
    "DRA_SERVICES",
    "PLUGIN_TYPE",
    "REGISTRATION",
    "SUPPORTED",
    "Claim",
    "Claims",
    "Empty",
    "InfoRequest",
    "PluginInfo",
    "PrepareResponse",
    "RegistrationStatus",
    "UnprepareResponse",
]
