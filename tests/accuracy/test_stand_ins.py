"""What stands in for what no start-up of a release tells, on figures made up for it."""

import pytest

from service.capacity.reserve_rules import Overhead
from tests.accuracy.stand_ins import Release, kind_of, stand_in

ONE = Overhead(tensor_parallel=(1, 1), low=0, best=0, high=0, logs=0, source="")
TWO = Overhead(tensor_parallel=(2, 3), low=0, best=0, high=0, logs=0, source="")
MORE = Overhead(tensor_parallel=(4, 64), low=0, best=0, high=0, logs=0, source="")
HOPPER = Overhead(cards=("Hopper",), tensor_parallel=(2, 64), low=0, best=0, high=0, logs=0, source="")


def measured(kind: Overhead, low: int, best: int, high: int) -> tuple[Overhead, Overhead]:
    return kind, Overhead(
        cards=kind.cards, tensor_parallel=kind.tensor_parallel, low=low, best=best, high=high, logs=3, source="logs"
    )


def release(first: int, last: int, *rows: tuple[Overhead, Overhead], rule: str = "", graphs: int = 0) -> Release:
    return Release(minors=(first, last), rule=rule or str(first), graphs=graphs, measured=dict(rows))


def ends(found: Overhead | None) -> tuple[int, int, int] | None:
    return None if found is None else (found.low, found.best, found.high)


def test_the_nearest_release_gives_the_middle_and_all_of_them_the_range() -> None:
    releases = (
        release(6, 7, measured(ONE, 90, 100, 110)),
        release(8, 10),
        release(11, 16, measured(ONE, 150, 200, 250)),
        release(17, 19, measured(ONE, 10, 20, 30)),
    )
    assert ends(stand_in(ONE, 8, releases)) == (10, 100, 250)
    assert ends(stand_in(ONE, 10, releases)) == (10, 200, 250)
    # A release's own figure is no part of what would stand in for it.
    assert ends(stand_in(ONE, 12, releases)) == (10, 100, 110)
    found = stand_in(ONE, 8, releases)
    assert found is not None
    assert (found.logs, found.source) == (0, "start-ups of other releases: no start-up of this kind is known")
    assert kind_of(found) == ONE


def test_graphs_are_taken_off_where_they_are_counted_and_put_on_where_they_are_counted_here() -> None:
    releases = (release(17, 19, measured(ONE, 10, 20, 30)), release(20, 33, graphs=600))
    assert ends(stand_in(ONE, 20, releases)) == (610, 620, 630)
    releases = (release(17, 19), release(20, 33, measured(ONE, 610, 620, 630), graphs=600))
    assert ends(stand_in(ONE, 19, releases)) == (10, 20, 30)


def test_another_number_of_ranks_does_not_stand_in() -> None:
    assert stand_in(TWO, 12, (release(11, 16, measured(ONE, 10, 20, 30)), release(17, 19))) is None


def test_a_special_kind_keeps_what_it_keeps_beyond_the_plain_one() -> None:
    # In 0.11 it kept 30 more than the plain kind's 100, 20 to 40 as it was seen; the plain one keeps 500 in 0.17, and
    # up to 900 on more ranks.
    releases = (
        release(11, 16, measured(TWO, 90, 100, 110), measured(HOPPER, 120, 130, 140)),
        release(17, 19, measured(TWO, 450, 500, 550), measured(MORE, 800, 850, 900)),
    )
    assert ends(stand_in(HOPPER, 17, releases)) == (450 + 20, 500 + 30, 900 + 40)
    assert stand_in(HOPPER, 17, releases[1:]) is None


@pytest.mark.parametrize(("minor", "expected"), [(10, (120, 130, 140)), (17, (20, 30, 40)), (13, None)])
def test_of_releases_that_share_a_rule_the_nearest_speaks_and_to_none_of_the_others(
    minor: int, expected: tuple[int, int, int] | None
) -> None:
    # A backend changed in 0.13: what was before it is carried to older releases, and what came to newer ones.
    plain = measured(TWO, 0, 0, 0)
    releases = (
        release(6, 10, plain),
        release(11, 12, plain, measured(HOPPER, 120, 130, 140), rule="sorted"),
        release(13, 14, plain, rule="sorted"),
        release(15, 16, plain, measured(HOPPER, 20, 30, 40), rule="sorted"),
        release(17, 19, plain),
    )
    assert ends(stand_in(HOPPER, minor, releases)) == expected
