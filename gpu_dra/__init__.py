"""What the node agent, the controller and the kubectl plugin agree on: domain values and the words on the wire."""

__version__ = "0.1.0"
