"""Lengths as logs hold them, right and wrong, each once as text: what is in which bin, and what is refused."""

READ = {
    "1": 0,
    "2": 1,
    "3": 2,
    "12": 4,
    "12.0": 4,
    "12.": 4,
    " 12 ": 4,
    "+12": 4,
    "012": 4,
    "1.2e1": 4,
    "16": 4,
    "17": 5,
    "20": 5,
    "1048576": 52,
    "1048577": 53,
    "2147483647": 85,
}
"""By the edges 0, 1, 2, 4, 8, 16, 20, ...: the 54th is 2^20, the 87th the most that a question holds, 2^31 - 1."""

REFUSED = {
    "missing": ["", "   ", "null"],
    "not whole": [
        "1.5",
        "abc",
        "1,234",
        "NaN",
        "Infinity",
        "1_000",
        "0x10",
        "7d",
        "7f",
        "true",
        "٣",
        "1e-1",
        "-",
        "1 2",
    ],
    "not positive": ["0", "-1", "-0", "-1.5", "0.0", "-9223372036854775809"],
    "beyond": ["2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e99"],
}

EVERY = [*READ, *(text for texts in REFUSED.values() for text in texts)]
"""Those that are read, and those that are refused."""
JSON_NUMBERS = [
    "12",
    "12.0",
    "1.2e1",
    '"12"',
    "null",
    "true",
    "[12]",
    "{}",
    "1.5",
    "-3",
    "123456789012345678901234567890",
]
"""Spellings of a number in JSON, and of what is none."""
