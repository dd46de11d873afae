"""Workloads that are named as GPUs and engines are, by key and version.

Workloads are told apart by their `kind`, which what names one leaves out: it is written in before the document is
given its shape.
"""

from typing import Any

NAMED = "named"
"""The kind of what names a workload."""


def with_kind(tree: Any) -> Any:  # noqa: ANN401 - any JSON
    """The document with its kind in a workload that is named, its own or its question's; else the same document."""
    if not isinstance(tree, dict):
        return tree
    question = tree.get("question")
    if (changed := _with_kind(question)) is not question:
        return tree | {"question": changed}
    return _with_kind(tree)


def _with_kind(question: Any) -> Any:  # noqa: ANN401 - any JSON
    workload = question.get("workload") if isinstance(question, dict) else None
    if not isinstance(workload, dict) or "kind" in workload or not workload.keys() & {"key", "version"}:
        return question
    return question | {"workload": {"kind": NAMED} | workload}
