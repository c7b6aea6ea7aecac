"""The files of examples/resourceclaims, as they are but for the image, which the nodes have already."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "resourceclaims"
GRACE = "  terminationGracePeriodSeconds: 5"


def example(name: str, *, renamed: str | None = None, node: str | None = None) -> str:
    """The YAML of an example; `renamed` names its objects anew, `node` pins its pods to a node."""
    text = re.sub(r"image: busybox\b.*", "image: localhost/busybox:e2e", (EXAMPLES / f"{name}.yaml").read_text())
    if renamed is not None:
        text = re.sub(rf"(\b|Template|Claim)([nN]ame): {name}$", rf"\1\2: {renamed}", text, flags=re.MULTILINE)
    if node is not None:
        assert GRACE in text
        text = text.replace(GRACE, f"{GRACE}\n  nodeSelector: {{kubernetes.io/hostname: {node}}}")
    return text
