"""The values file: read strictly, every mistake told with its place."""

from __future__ import annotations

import pytest

from controller import class_list
from controller.class_list import WantedClass
from gpu_dra.errors import InputError


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        class_list.parse(text, "classes.yaml")
    assert caught.value.where == "classes.yaml"
    return caught.value.problems


def test_reads_what_the_chart_writes() -> None:
    text = """
- {driver: gpu.nvidia.com, extendedResourceName: nvidia.com/gpu, name: gpu.nvidia.com, type: gpu}
- {driver: nic.gpu-dra.io, name: nics, type: nic}
"""
    assert class_list.parse(text, "classes.yaml") == (
        WantedClass("gpu.nvidia.com", "gpu", "gpu.nvidia.com", "nvidia.com/gpu"),
        WantedClass("nics", "nic", "nic.gpu-dra.io", None),
    )


def test_an_empty_list_wants_no_class() -> None:
    assert class_list.parse("[]", "classes.yaml") == ()


def test_every_mistake_is_told_with_its_place() -> None:
    text = """
- {name: GPU, type: tpu, driver: gpu.nvidia.com}
- {name: a, type: gpu, drivers: x}
- {name: a, type: gpu, driver: d.example, extendedResourceName: gpu}
"""
    assert problems(text) == (
        "deviceClasses[0].name is 'GPU', and a DNS name is wanted: lower-case letters, digits, - and .",
        "deviceClasses[0].type is 'tpu', and one of gpu, mig, nic is wanted",
        "deviceClasses[1].driver is missing; a text is wanted",
        "deviceClasses[2].extendedResourceName is 'gpu', and DOMAIN/NAME is wanted, for example nvidia.com/gpu",
        "deviceClasses[2].name is a, as in an entry before; remove one of the two",
        "deviceClasses[1].drivers is not a known field; known here are driver, extendedResourceName, name, type",
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kubernetes.io/gpu", "keeps that domain for itself"),
        ("resource.kubernetes.io/gpu", "keeps that domain for itself"),
        ("requests.nvidia.com/gpu", "keeps that domain for itself"),
        ("nvidia.com/", "DOMAIN/NAME is wanted"),
        ("/gpu", "DOMAIN/NAME is wanted"),
        ("nvidia.com/a/b", "DOMAIN/NAME is wanted"),
        ("nvidia.com/" + "g" * 64, "DOMAIN/NAME is wanted"),
    ],
)
def test_refuses_names_that_the_api_server_would_refuse(name: str, words: str) -> None:
    (only,) = problems(f"[{{name: a, type: gpu, driver: d, extendedResourceName: {name!r}}}]")
    assert only.startswith("deviceClasses[0].extendedResourceName is ")
    assert words in only


def test_one_extended_resource_belongs_to_one_class() -> None:
    text = """
- {name: a, type: gpu, driver: d, extendedResourceName: x.example/gpu}
- {name: b, type: gpu, driver: d, extendedResourceName: x.example/gpu}
"""
    assert problems(text) == (
        "deviceClasses[1].extendedResourceName is x.example/gpu, which class a has already; keep it on one of them",
    )


def test_a_driver_name_is_short() -> None:
    assert problems(f"[{{name: a, type: gpu, driver: {'d' * 64}}}]") == (
        "deviceClasses[0].driver has 64 characters, and at most 63 are allowed",
    )


def test_an_entry_that_is_no_mapping_is_told() -> None:
    assert problems("[gpu]")[0].startswith("deviceClasses[0] is ")


@pytest.mark.parametrize("text", ["", "a: b", "7"])
def test_something_else_than_a_list_is_told(text: str) -> None:
    (only,) = problems(text)
    assert only.startswith("deviceClasses is ")


def test_broken_yaml_is_told_in_one_line() -> None:
    (only,) = problems("[{name: ")
    assert only.startswith("this is no YAML: ")
    assert "\n" not in only
