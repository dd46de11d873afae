"""Rules of named workloads, each against a workload that breaks it and no other."""

from typing import Any

import msgspec
import pytest

from service.capacity.figures import Figure
from service.capacity.named_workload import NamedWorkload
from service.capacity.workload import Found, Joint
from service.catalog.bundled import bundled_catalog
from service.catalog.workload_integrity import workload_faults

SOUND = bundled_catalog().workloads.pinned("azure_conv_2023", None).spec
LENGTHS = SOUND.lengths.value


def faults(key: str = "chat", **changes: object) -> list[str]:
    return workload_faults(key, msgspec.structs.replace(SOUND, **changes))


def of_lengths(**changes: object) -> list[str]:
    changed = msgspec.structs.replace(LENGTHS, **changes)
    return faults(lengths=msgspec.structs.replace(SOUND.lengths, value=changed))


def test_a_sound_workload_has_no_fault() -> None:
    assert faults() == []


@pytest.mark.parametrize("key", ["", "Chat", "chat room", "_chat", "chat/room", "chat?"])
def test_a_key_is_small_letters_digits_dots_dashes_and_underscores(key: str) -> None:
    (fault,) = faults(key)
    assert fault.startswith(f"key {key!r}: the form is")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"about": " "}, "about: is one line that isn't empty"),
        ({"licence": "CC BY 4.0"}, "licence: 'CC BY 4.0' is no name of SPDX"),
        ({"attribution": "Patel et al., under CC-BY-4.0"}, "says after 'Changed: ' what was changed"),
        ({"attribution": "Patel et al. Changed: sorted into bins."}, "attribution: names the licence, CC-BY-4.0"),
        ({"requests": Figure(19_367, "a test", "high")}, "add up to 19366 requests, and there are 19367"),
        ({"mean_prompt_tokens": Figure(1_180.0, "a test", "high")}, "mean_prompt_tokens: 1180.0 is not within 2%"),
        ({"mean_output_tokens": Figure(205.0, "a test", "high")}, "mean_output_tokens: 205.0 is not within 2%"),
        ({"mean_output_tokens": Figure(211.1, "", "high")}, "mean_output_tokens: a source is one line"),
        ({"caveats": (Found("Few rows", "x"),)}, "'Few rows' is a code of small letters and underscores"),
        ({"caveats": (Found("few_rows", ""),)}, "with a text of one line"),
        ({"caveats": (Found("few_rows", "x"), Found("few_rows", "y"))}, "caveats: each code comes once"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str) -> None:
    assert said in " | ".join(faults(**changes))


@pytest.mark.parametrize(
    "edges",
    [
        (1, *LENGTHS.prompt_edges[1:]),
        (*LENGTHS.prompt_edges[:-1], None),
        (*LENGTHS.prompt_edges[:20], 400, *LENGTHS.prompt_edges[21:]),
        (*LENGTHS.prompt_edges[:20], 406, *LENGTHS.prompt_edges[21:]),
        (*LENGTHS.prompt_edges[:20], 560, *LENGTHS.prompt_edges[21:]),
    ],
    ids=["begins at 1", "is open", "falls", "comes twice", "leaves a third of an octave"],
)
def test_edges_begin_at_0_rise_close_and_stand_three_to_an_octave(edges: tuple[int | None, ...]) -> None:
    for side in ("prompt", "output"):
        found = of_lengths(**{f"{side}_edges": edges})
        assert found
        assert all(f"lengths: {side}_edges" in fault for fault in found)


def test_a_bin_of_an_octave_is_narrow_enough_below_16_only() -> None:
    # 1 to 2, 2 to 4, 4 to 8 and 8 to 16 stand in every bundled workload.
    wide = (*LENGTHS.prompt_edges[:20], *LENGTHS.prompt_edges[21:])
    assert (
        of_lengths(prompt_edges=wide)[0] == "lengths: prompt_edges: from 406 to 645 is wider than a third of an octave"
    )


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((LENGTHS.counts[1], LENGTHS.counts[0], *LENGTHS.counts[2:]), "sorted by bins"),
        ((*LENGTHS.counts, LENGTHS.counts[-1]), "each pair of bins once"),
        ((*LENGTHS.counts, (52, 52, 0)), "a count is at least 1"),
        ((*LENGTHS.counts, (53, 0, 1)), "counts are of bins 0 to 52 and 0 to 52"),
        ((), "there is no request"),
    ],
)
def test_counts_are_in_their_normal_form(counts: tuple[tuple[int, int, int], ...], said: str) -> None:
    assert said in " | ".join(of_lengths(counts=counts))


def test_few_requests_say_that_they_are_few() -> None:
    few = Joint(prompt_edges=(0, 1), output_edges=(0, 1), counts=((0, 0, 999),))
    one = Figure(1.0, "a test", "high")
    spec: dict[str, Any] = {
        "requests": Figure(999, "a test", "high"),
        "mean_prompt_tokens": one,
        "mean_output_tokens": one,
        "lengths": Figure(few, "a test", "high"),
    }
    assert faults(**spec) == ["caveats: 999 requests are few, which few_rows says"]
    assert faults(**spec, caveats=(Found("few_rows", "few"),)) == []


def test_an_unknown_field_of_a_workload_is_refused() -> None:
    document = msgspec.to_builtins(SOUND) | {"license": "MIT"}
    with pytest.raises(msgspec.ValidationError, match="unknown field `license`"):
        msgspec.convert(document, NamedWorkload)
