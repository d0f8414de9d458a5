#!/usr/bin/python3
"""The cost model of many machines (bench/machines.py) and the messages that truemax-mpi counts."""
import os
import shutil
import subprocess
import sys
import unittest

from support import LIMIT_SECONDS, PROGRAM, ROOT, ProgramTest, events

sys.path.insert(0, os.path.join(ROOT, "bench"))
import machines  # noqa: E402

MPI = os.path.join(os.path.dirname(PROGRAM), "truemax-mpi")


class Model(unittest.TestCase):
    work = machines.Work(each=1e-6, block=1e-6, blocks=17)
    messages = machines.Messages(reductions=10, combined=40)
    link = machines.Link([(1e-4, 1e-9), (1.2e-4, 2e-9), (1.5e-4, 3e-9), (2e-4, 4e-9)])

    def test_parts_are_those_of_the_group_lane(self):
        self.assertEqual([machines.parts_of(n) for n in (1, 64, 128, 129, 256, 512, 1024, 4096)], [1, 1, 1, 2, 2, 4, 4, 4])
        with open(os.path.join(ROOT, "src", "train", "group_member.hpp"), encoding="utf-8") as file:
            lane = file.read()
        self.assertIn(f"kFewestRows = {machines.FEWEST_ROWS};", lane)
        with open(os.path.join(ROOT, "src", "ranks", "ranks.hpp"), encoding="utf-8") as file:
            self.assertIn(f"kMostStarted = {machines.PARTS};", file.read())

    def test_small_group_is_its_work_and_its_rounds(self):
        expected = 64 * (1e-6 + 17e-6 / 2) + 10 * (1e-4 + 64 * 40 / 10 * 1e-9)
        self.assertAlmostEqual(machines.seconds_of_group(64, 2, self.work, self.messages, self.link), expected, 12)

    def test_parts_of_a_large_group_share_a_round(self):
        expected = 1024 * (1e-6 + 17e-6 / 2) + 10 / 4 * (2e-4 + 1024 * 40 / 10 * 4e-9)
        self.assertAlmostEqual(machines.seconds_of_group(1024, 2, self.work, self.messages, self.link), expected, 12)

    def test_a_link_is_its_latency_or_the_work_for_its_messages(self):
        link = machines.Link.of(latency=1e-5, gigabits=8, message=5e-6)
        self.assertAlmostEqual(link.round(1, 1000), 1.5e-5 + 1e-6)
        self.assertAlmostEqual(link.round(4, 1000), 2e-5 + 4e-6)

    def test_one_rank_sends_nothing(self):
        self.assertEqual(machines.sent_per_row(self.messages, 1), 0)
        self.assertAlmostEqual(machines.seconds_of_group(64, 1, self.work, self.messages, self.link), 64 * 18e-6, 12)

    def test_bytes_grow_with_the_exchanges_of_an_all_reduce(self):
        self.assertEqual([machines.stages_of(p) for p in (1, 2, 3, 4, 6, 8, 256)], [0, 1, 3, 2, 4, 3, 8])
        self.assertEqual([machines.sent_per_row(self.messages, p) for p in (2, 4, 256)], [40, 80, 320])

    def test_line_goes_through_points_on_a_line(self):
        base, slope = machines.line_through([(1, 5), (2, 7), (4, 11)])
        self.assertAlmostEqual(base, 3)
        self.assertAlmostEqual(slope, 2)
        self.assertEqual(machines.line_through([(1, 4), (2, 2)])[1], 0)


class Counted(ProgramTest):
    def end(self, ranks, method, group):
        run = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), MPI, "train",
                              "train.txt", "--method", method, "--step", "0.1", "--epochs", "2", "--group", str(group),
                              "--eval-every", "0", "--model", "none", "--log", f"{ranks}.jsonl"], cwd=self.folder,
                             capture_output=True, text=True, timeout=LIMIT_SECONDS)
        self.assertEqual(run.returncode, 0, run.stderr)
        return events(self.path(f"{ranks}.jsonl"))[-1]["ranks"]

    def setUp(self):
        super().setUp()
        if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
            self.skipTest("Open MPI is not built for the thread sanitizer")
        if shutil.which("mpirun") is None or not os.access(MPI, os.X_OK):
            from support import skip
            skip("no mpirun, or no truemax-mpi beside the program")
        self.generate("train.txt", rows=1024, classes=300, features=80)

    def test_scent_sends_a_maximum_a_sum_and_a_total(self):
        """Label score and maximum, sum, what the label gets: 4 numbers of 4 bytes, three times a part."""
        counted = self.end(2, "scent", 64)
        self.assertEqual(counted, {"number": 2, "rows": 2048, "reductions": 3 * 32, "combined_bytes": 16 * 2048,
                                   "sent_bytes": 16 * 2048})

    def test_one_rank_counts_what_several_combine(self):
        one, two, four = (self.end(p, "prox", 128) for p in (1, 2, 4))
        self.assertEqual(one["sent_bytes"], 0)
        messages = machines.Messages(one["reductions"], one["combined_bytes"] / one["rows"])
        for ranks, counted in ((2, two), (4, four)):
            # The last Newton step of a row may depend on how sums are rounded.
            self.assertAlmostEqual(counted["sent_bytes"] / counted["rows"] / machines.sent_per_row(messages, ranks), 1,
                                   delta=0.02)
            self.assertAlmostEqual(counted["reductions"] / one["reductions"], 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
