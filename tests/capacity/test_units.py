"""Numbers as they are shown."""

from fractions import Fraction

import pytest

from service.capacity.units import exact, six_digits


@pytest.mark.parametrize(
    ("number", "rounded"),
    [
        (Fraction(27_507, 512), 53.7246),
        (Fraction(2_175_225, 10_000), 217.522),  # a tie goes to the even digit, and is rounded once
        (Fraction(2_175_235, 10_000), 217.524),
        (Fraction(0), 0.0),
        (Fraction(10**30, 3), 3.33333e29),
    ],
)
def test_a_ratio_has_six_significant_digits(number: Fraction, rounded: float) -> None:
    assert six_digits(number) == rounded


def test_a_share_is_the_decimal_that_was_written() -> None:
    assert exact(0.9) == Fraction(9, 10)
    assert exact(1e-7) == Fraction(1, 10**7)
