"""The one expression that every engine computes: how many requests have their lengths in which two bins.

Exact: lengths are compared with whole edges, as 64-bit floats, which hold every whole number up to 2^53.
"""

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import msgspec

from service.errors import InvalidParameters
from service.readers.question import MOST_TOKENS
from service.warehouse import columns
from service.warehouse.edges import EDGES

MISSING, NOT_WHOLE, NOT_POSITIVE, BEYOND = -1, -2, -3, -4
"""In place of a bin: why a length is refused."""

# The same in the dialects of RE2, Java and PostgreSQL: no backslashes. Texts inside JSON come with their quotes.
_DIGITS = "^[0-9]{1,15}$"
_BLANK = '^[ "]*(null)?[ "]*$'
_NUMBER = '^[ "]*([+-]?[0-9]{1,40}([.][0-9]{0,40})?([eE][+-]?[0-9]{1,2})?)[ "]*$'


class Lengths(msgspec.Struct, frozen=True):
    """A table, and where in it the lengths stand."""

    table: ir.Table
    prompt: columns.Path
    output: columns.Path


def histogram(lengths: Sequence[Lengths]) -> ir.Table:
    """Columns `prompt`, `output`, `requests`: how many have these two bins, or refusals in place of bins."""
    numbers = [
        part.table.select(prompt=_number(part.table, part.prompt), output=_number(part.table, part.output))
        for part in lengths
    ]
    # Ibis writes one projection into the next, and every comparison would read the text anew; not through a union.
    together = ibis.union(*numbers, numbers[0].filter(ibis.literal(value=False)))
    places = together.select(prompt=_place(together.prompt), output=_place(together.output))
    return places.group_by(["prompt", "output"]).agg(requests=places.count())


def _number(table: ir.Table, column: columns.Path) -> ir.FloatingValue:
    """The number in a column; null where there is none, NaN for what is no number."""
    value = _value(table, column)
    if value.type().is_numeric():
        return value.cast("float64")
    if not value.type().is_string():
        name, kind = columns.dotted(column), value.type()
        raise InvalidParameters(("FILE", f"{name} holds {kind}: lengths are numbers, or texts of numbers"))
    # Nearly all are digits only, which is ten times faster to see than what else a number may be written as.
    return ibis.cases(
        (value.re_search(_DIGITS), value.cast("float64")),
        (value.isnull() | value.re_search(_BLANK), ibis.null("float64")),
        else_=value.re_extract(_NUMBER, 1).nullif("").cast("float64").coalesce(float("nan")),
    )


def _value(table: ir.Table, column: columns.Path) -> ir.Value:
    value = table[column[0]]
    if len(column) > 1 and value.type().is_string():
        value = value.cast("json")
    for name in column[1:]:
        value = value[name]
    return value.cast("string") if value.type().is_json() else value


def _place(number: ir.FloatingValue) -> ir.IntegerValue:
    return ibis.cases(
        (number.isnan(), NOT_WHOLE),  # before null, which on Spark it is for Ibis as well
        (number.isnull(), MISSING),
        (number > MOST_TOKENS, BEYOND),
        (number <= 0, NOT_POSITIVE),
        (number != number.floor(), NOT_WHOLE),
        else_=number.bucket(EDGES, closed="right"),
    )
