"""What must run in the guest: reads tests/guest/suites.txt and judges by it."""
from pathlib import Path
from typing import NamedTuple


class GuestSuite(NamedTuple):
    name: str
    minimum: int
    patterns: list
    env: dict


def read_suites(path=Path(__file__).resolve().parent / "suites.txt"):
    suites = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, minimum, *more = line.split()
            env = dict(word.split("=", 1) for word in more if "=" in word)
            suites.append(GuestSuite(name, int(minimum), [word for word in more if "=" not in word], env))
    return suites


def too_few(suites, passed):
    """A line for each suite of which less passed than must; `passed` are names like "SUITE::TEST"."""
    problems = [] if suites else ["suites.txt names no suite"]
    for suite in suites:
        count = sum(name.startswith(suite.name + "::") for name in passed)
        if count < suite.minimum:
            problems.append(f"{suite.name}: {count} passed, at least {suite.minimum} must (tests/guest/suites.txt)")
    return problems
