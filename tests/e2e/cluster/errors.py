"""The one error of the cluster's modules: a sentence that says what is wrong, where, and what to do."""

from __future__ import annotations


class ClusterError(Exception):
    """Something the cluster needs cannot be had or did not happen; the text is for a person."""
