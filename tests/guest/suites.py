"""Reads tests/guest/suites.txt."""
from pathlib import Path
from typing import NamedTuple


class GuestSuite(NamedTuple):
    name: str
    minimum: int
    pattern: str


def read_suites(path=Path(__file__).resolve().parent / "suites.txt"):
    suites = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, minimum, *pattern = line.split()
            suites.append(GuestSuite(name, int(minimum), "".join(pattern)))
    return suites
