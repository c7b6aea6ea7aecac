"""Values that cannot work are refused with words that say which and what to do."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests import chart
from tests.chart import CHART, HelmError

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
CLASS = {"name": "a", "type": "gpu"}


def refusal(values: dict[str, Any], **options: Any) -> str:
    with pytest.raises(HelmError) as caught:
        chart.render(values, **options)
    return str(caught.value)


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(VALUES)


def test_the_schema_names_every_value_and_no_other() -> None:
    def compare(schema: dict[str, Any], values: dict[str, Any], path: str) -> None:
        # Mappings whose keys are the user's own hold no value here.
        if "properties" not in schema or not values:
            return
        assert schema["additionalProperties"] is False, f"{path or 'the root'} takes anything"
        assert set(schema["properties"]) - {"global"} == set(values), path
        for key, value in values.items():
            if isinstance(value, dict):
                compare(schema["properties"][key], value, f"{path}.{key}")

    compare(SCHEMA, VALUES, "")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("foo", 1, "additional properties 'foo' not allowed"),
        ("nodeAgent.image.tagg", "x", "at '/nodeAgent/image': additional properties 'tagg' not allowed"),
        ("nodeAgent", None, "missing property 'nodeAgent'"),
        ("nodeAgent.image", None, "at '/nodeAgent': missing property 'image'"),
        ("nodeAgent.simulate.customProfiles", None, "at '/nodeAgent/simulate': missing property 'customProfiles'"),
        ("nodeAgent.updateStrategy.maxSurge", "many", "at '/nodeAgent/updateStrategy/maxSurge': 'many' does not match"),
        ("nodeAgent.updateStrategy.maxSurge", -1, "at '/nodeAgent/updateStrategy/maxSurge': minimum: got -1, want 0"),
        ("nodeAgent.httpPort", 80, "at '/nodeAgent/httpPort': minimum: got 80, want 1,024"),
        ("nodeAgent.podLabels", {"app.kubernetes.io/name": "x"}, "invalid propertyName 'app.kubernetes.io/name'"),
        ("nodeAgent.simulate.profile", "two words", "at '/nodeAgent/simulate/profile': 'two words' does not match"),
        ("controller.replicas", "two", "at '/controller/replicas': got string, want integer"),
        ("kubeletRootDir", "var/lib/kubelet", "at '/kubeletRootDir': 'var/lib/kubelet' does not match"),
        ("kubeletRootDir", "/var/lib/kubelet/", "at '/kubeletRootDir': '/var/lib/kubelet/' does not match"),
        ("cdiRoot", "/var/run/c:di", "at '/cdiRoot': '/var/run/c:di' does not match"),
        ("gpuDriverName", "GPU", "at '/gpuDriverName': 'GPU' does not match"),
        ("logLevel", "loud", "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ("deviceClasses", [{"name": "a"}], "at '/deviceClasses/0': missing property 'type'"),
        ("deviceClasses", [{"name": "A", "type": "gpu"}], "at '/deviceClasses/0/name': 'A' does not match"),
        ("deviceClasses", [{"name": "a", "type": "tpu"}], "value must be one of 'gpu', 'mig', 'nic'"),
        (
            "deviceClasses",
            [{**CLASS, "extendedResourceName": "gpu"}],
            "at '/deviceClasses/0/extendedResourceName': 'gpu'",
        ),
    ],
)
def test_the_schema_says_where_it_is_wrong(key: str, value: object, words: str) -> None:
    assert words in refusal({key: value})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gpuDriverName": "nic.gpu-dra.io"}, "Use: --set gpuDriverName=gpu.nvidia.com"),
        (
            {"nodeAgent.updateStrategy.maxSurge": 0, "nodeAgent.updateStrategy.maxUnavailable": 0},
            "Use: --set nodeAgent.updateStrategy.maxUnavailable=1",
        ),
        (
            {"nodeAgent.simulate.nodes": {"n1": "/etc/gpu-dra/profiles/mine.yaml"}},
            "Use: --set-file nodeAgent.simulate.customProfiles.mine=FILE.yaml",
        ),
        ({"deviceClasses": [CLASS, CLASS]}, "deviceClasses names a twice"),
        (
            {
                "deviceClasses": [
                    {**CLASS, "extendedResourceName": "x.example/gpu"},
                    {**CLASS, "name": "b", "extendedResourceName": "x.example/gpu"},
                ]
            },
            "extendedResourceName x.example/gpu to both a and b",
        ),
        ({"deviceClasses": [{**CLASS, "extendedResourceName": "kubernetes.io/gpu"}]}, "Kubernetes keeps that domain"),
        ({"deviceClasses": [{**CLASS, "extendedResourceName": "requests.x.io/gpu"}]}, "Kubernetes keeps that domain"),
        (
            {"nodeAgent.serviceAccount.name": "one", "controller.serviceAccount.name": "one"},
            "Use: --set controller.serviceAccount.name=",
        ),
    ],
)
def test_what_only_several_values_show_is_refused_with_the_command(values: dict[str, Any], words: str) -> None:
    assert words in refusal(values)


def test_a_surge_is_refused_where_the_kubelet_cannot_hold_two() -> None:
    told = refusal({"nodeAgent.updateStrategy.maxSurge": 1}, kube_version="1.32.9")
    assert "the kubelet of v1.32.9 drops the newer of two agents" in told
    assert "Use: --set nodeAgent.updateStrategy.maxSurge=null" in told


def test_an_older_kubernetes_is_refused() -> None:
    assert "incompatible with Kubernetes v1.31.0" in refusal({}, kube_version="1.31.0")
