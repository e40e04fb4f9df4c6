"""tests/run.py: which suites run at the same time, and what is shown of those that fail."""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import run  # noqa: E402

WAIT = """for i in $(seq 600); do [ -e "$0" ] && exit 0; sleep 0.05; done; echo "not ok 1 - $0"; exit 1"""


class Lanes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="osb-runner-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def suite(self, name, needs=(), without=()):
        """Passes when what it needs comes while it runs, and what must not be there yet is not."""
        words = [f'[ ! -e "{self.folder}/{other}" ] || exit 1' for other in without]
        words += [f'touch "{self.folder}/{name}.began"']
        words += [f'sh -c \'{WAIT}\' "{self.folder}/{other}" || exit 1' for other in needs]
        words += [f'touch "{self.folder}/{name}.ended"', 'echo "ok 1 - works"']
        return run.Suite(name, ["sh", "-c", "\n".join(words)], 60)

    def outcomes(self, suites):
        return {o.test: o.state for _, result, _, _ in run.run_all(suites, False) for o in result}

    def test_the_guest_has_company_and_measuring_has_none(self):
        suites = [
            self.suite("bench.create", ["guest.ended", "asan.integration.server.ended"]),
            self.suite("guest", ["asan.integration.server.began"], ["bench.create.began"]),
            self.suite("asan.integration.server", ["guest.began", "unit.base.str.ended"], ["bench.create.began"]),
            self.suite("unit.base.str", ["lint.began"], ["guest.began"]),
            self.suite("lint", ["unit.base.str.began"], ["guest.began"]),
        ]
        self.assertEqual(self.outcomes(suites), {f"{suite.name}::works": "passed" for suite in suites})

    def test_launchers_in_pairs_then_one_by_one(self):
        launchers = ["integration.launcher_kill", "asan.integration.launcher"]
        suites = [
            self.suite("integration.cycles", [name + ".ended" for name in launchers], ["security.inside.began"]),
            self.suite("security.inside", ["integration.cycles.ended"]),
            self.suite(launchers[0], [launchers[1] + ".began"], ["integration.cycles.began"]),
            self.suite(launchers[1], [launchers[0] + ".began"], ["integration.cycles.began"]),
        ]
        self.assertEqual(set(self.outcomes(suites).values()), {"passed"})

    def test_the_guest_spans_what_is_beside_it(self):
        suites = [
            self.suite("guest", ["integration.launcher.began", "integration.cycles.began"]),
            self.suite("integration.launcher", ["guest.began"]),
            self.suite("integration.cycles", ["integration.launcher.ended"], ["guest.ended"]),
        ]
        self.assertEqual(set(self.outcomes(suites).values()), {"passed"})

    def test_who_is_where(self):
        lanes = {suite.name: suite.lane() for suite in run.select("all", ROOT / "build")}
        for name, lane in {"lint": "pairs", "guest-disk": "pairs", "asan.integration.execd_http": "pairs",
                           "fuzz.planted": "pairs", "guest": "guest", "integration.hogs": "alone",
                           "bench.memory": "alone", "clean.make_run": "alone",
                           "integration.cycles": "one by one", "conformance.cli": "one by one",
                           "asan.integration.launcher_kill": "launchers"}.items():
            self.assertEqual(lanes[name], lane, name)
        alone = {name for name, lane in lanes.items() if lane == "alone"}
        self.assertLessEqual({name for name in lanes if name.startswith(("bench.", "clean."))}, alone)


class Shown(unittest.TestCase):
    def test_a_failure_far_from_the_end(self):
        text = "ok 1 - a\nnot ok 2 - b\n# why b failed\nok 3 - c\n# of c\n" + "# more\nok 4 - d\n" * 500
        lines = run.telling_lines(text)
        self.assertEqual(lines[:3], ["not ok 2 - b", "# why b failed", "# more"])
        self.assertLess(len(lines), 100)

    def test_a_short_one_is_shown_whole(self):
        self.assertEqual(run.telling_lines("ok 1 - a\nnot ok 2 - b\n# why\n"), ["ok 1 - a", "not ok 2 - b", "# why"])


if __name__ == "__main__":
    unittest.main()
