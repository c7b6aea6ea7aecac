"""What a person sets for a cluster is checked before anything starts, all of it at once."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import features
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.settings import Install, Settings, install_from, settings_from

VERSIONS = ("1.37.2", "1.34.4", "1.32.9")


def test_nothing_set_is_the_default() -> None:
    assert settings_from({}, VERSIONS) == Settings("dev", "1.37.2", 2)
    assert Settings(nodes=3).node_names == ("gd-n1", "gd-n2", "gd-n3")


def test_what_is_set_counts_and_a_v_before_the_version_does_not_matter() -> None:
    environ = {"CLUSTER": "mine", "K8S": "v1.32.9", "NODES": "4"}
    assert settings_from(environ, VERSIONS) == Settings("mine", "1.32.9", 4)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ClusterError) as caught:
        settings_from({"CLUSTER": "No/Way", "K8S": "1.31.0", "NODES": "5"}, VERSIONS)
    for part in ("CLUSTER='No/Way'", "K8S='1.31.0'", "1.34.4", "NODES='5'", "1 to 4"):
        assert part in str(caught.value)


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.0", "²", ""])
def test_a_number_of_nodes_is_a_digit_from_1_to_4_or_not_set(count: str) -> None:
    if count:
        with pytest.raises(ClusterError, match="NODES"):
            settings_from({"NODES": count}, VERSIONS)
    else:
        assert settings_from({"NODES": count}, VERSIONS).nodes == 2


def test_the_last_profile_counts_for_all_nodes_after_it() -> None:
    chosen = install_from({"PROFILE": "dgx-h100, l40s-4", "HELM_ARGS": "--set 'a=b c'"}, 3)
    assert chosen == Install(("dgx-h100", "l40s-4"), ("--set", "a=b c"))
    assert chosen.of_nodes(["a", "b", "c"]) == {"a": "dgx-h100", "b": "l40s-4", "c": "l40s-4"}


def test_profiles_beyond_the_nodes_and_open_quotes_are_named() -> None:
    with pytest.raises(ClusterError) as caught:
        install_from({"PROFILE": "a,b,", "HELM_ARGS": "--set 'a"}, 2)
    for part in ("names 3 profiles", "2 nodes", "'' is no profile's name", "HELM_ARGS"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("minor", "version"), [(32, "v1beta1"), (33, "v1beta2"), (34, "v1"), (35, "v1"), (36, "v1"), (37, "v1")]
)
def test_each_version_serves_what_the_suite_speaks(minor: int, version: str) -> None:
    assert features.served_version(minor) == version
    assert (version in " ".join(features.api_flags(minor))) == (minor < 34)


def test_a_servers_own_name_for_its_version_is_understood() -> None:
    assert features.minor_of("v1.34.4-gke.100") == 34
    with pytest.raises(ValueError, match="is not a version"):
        features.minor_of("main")
