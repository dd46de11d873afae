"""Work in a thread answers or fails; it never leaves somebody waiting."""

import asyncio

import pytest

from service.api.off_loop import LARGE, off_loop


def first_of(items: tuple[int, ...]) -> int:
    return next(iter(items))


@pytest.mark.parametrize("size", [0, LARGE])
def test_an_iteration_that_ran_out_is_a_failure_and_no_wait_for_good(size: int) -> None:
    async def run(*items: int) -> int:
        return await asyncio.wait_for(off_loop(size, first_of, items), timeout=5)

    assert asyncio.run(run(7)) == 7
    with pytest.raises(RuntimeError, match="ran out"):
        asyncio.run(run())
