#!/usr/bin/python3
"""truemax compare and truemax tune, through the command line, on generated data."""
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import unittest
import xml.etree.ElementTree

from support import LIMIT_SECONDS, PROGRAM, ProgramTest, RefusalTest, truemax


def table_of(text, first):
    """The rows of the table whose header begins with `first`: {first cell: other cells}."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(first))
    rows = {}
    for line in lines[at + 2:]:
        if not line.strip():
            break
        cells = re.split(r"  +", line.strip())
        rows[cells[0]] = cells[1:]
    return rows


def rest_of(terminal):
    """What was written to a terminal until its other end was closed."""
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # the other end was closed
        pass
    return seen


class Compare(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 100)
        self.generate("b.txt", rows=300, seed=2)

    def test_methods_by_data_sets_at_equal_time(self):
        result = self.fine("compare", "a.txt", "b.txt", "--methods", "implicit,umax:classes-per-step=5,exact", "--grid",
                           "-1:1", "--seconds", 0.05, "--normalize", "l2", "--json-file", "r.json", "--plot", "p.svg")
        self.assertIn("a.txt: 400 rows, 60 features, 12 classes; T = 0.05 s of training a run", result.stdout)
        rows = table_of(result.stdout, "method")
        self.assertEqual(list(rows), ["class frequencies", "implicit", "umax:classes-per-step=5", "exact"])
        with open(self.path("r.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual(len(found["runs"]), 2 * 3 * 3)
        for run in found["runs"]:
            self.assertGreaterEqual(run["seconds"], 0.05)
            self.assertEqual(run["curve"][-1]["seconds"], run["seconds"])
            times = [point["seconds"] for point in run["curve"]]
            self.assertEqual(times, sorted(times))
        for d, data in enumerate(("a.txt", "b.txt")):
            for entry in ("implicit", "umax:classes-per-step=5", "exact"):
                runs = [run for run in found["runs"] if run["data"] == data and run["method"] == entry]
                best = min(runs, key=lambda run: run["curve"][-1]["train_log_loss"])
                self.assertEqual([run["best"] for run in runs], [run is best for run in runs])
                loss, step = rows[entry][3 * d:3 * d + 2]
                self.assertAlmostEqual(float(loss), best["curve"][-1]["train_log_loss"], delta=6e-5)
                self.assertEqual(float(step), best["step"])
        svg = xml.etree.ElementTree.parse(self.path("p.svg")).getroot()
        self.assertEqual(len(svg.findall(".//{*}rect")), 2, "a panel for each data set")
        self.assertEqual(len(svg.findall(".//{*}polyline")), 6)
        self.assertNotIn("+---", result.stdout, "no plot in a pipe unless asked for")

    def test_equal_epochs_match_a_training_run(self):
        said = self.fine("compare", "a.txt", "--test", "t.txt", "--methods", "implicit,umax:classes-per-step=5:delta=2",
                         "--grid", "0:1", "--epochs", 7, "--seed", 3, "--json-file", "r.json").stdout
        rows = table_of(said, "method")
        self.assertLess(float(rows["implicit"][0]), float(rows["class frequencies"][0]))
        with open(self.path("r.json"), encoding="utf-8") as file:
            runs = json.load(file)["runs"]
        for run, options in ((runs[0], ("--method", "implicit", "--step", 1)),
                             (runs[3], ("--method", "umax", "--classes-per-step", 5, "--delta", 2, "--step", 10))):
            self.fine("train", "a.txt", *options, "--epochs", 7, "--seed", 3, "--model", "m.safetensors")
            for data, key in (("a.txt", "train_log_loss"), ("t.txt", "test_log_loss")):
                self.assertEqual(self.metrics("m.safetensors", data)["log_loss"], run["curve"][-1][key])

    def test_by_step_shows_every_step_and_divergence(self):
        result = self.fine("compare", "a.txt", "--methods", "implicit,vanilla:classes-per-step=5", "--grid=-2:4", "--epochs",
                           3, "--by-step", "--plot", "-")
        rows = table_of(result.stdout, "method \\ step")
        self.assertEqual(len(rows["implicit"]), 7)
        self.assertEqual(rows["vanilla:classes-per-step=5"][-1], "diverged")
        self.assertEqual(sum(cell.endswith("*") for cell in rows["implicit"]), 1)
        best = min(float(cell.rstrip("*")) for cell in rows["implicit"])
        self.assertIn(f"{best:.4f}*", rows["implicit"])
        self.assertRegex(result.stdout, r"(?m)^ +\+-{50,}$")
        self.assertLessEqual(max(map(len, result.stdout.split("+---")[1].splitlines())), 80)

    def test_default_time_is_that_of_implicit(self):
        result = self.fine("compare", "a.txt", "--methods", "ove", "--grid", "0:0", "--points", 1)
        self.assertRegex(result.stdout, r"T = \d+(\.\d+)? s of training a run \(Implicit SGD 1 x 1, 50 epochs, step 1\)")

    def test_default_methods_run(self):
        rows = table_of(self.fine("compare", "a.txt", "--grid", "0:0", "--seconds", 0.02).stdout, "method")
        for entry in ("implicit", "umax:classes-per-step=5", "exact"):
            self.assertIn(entry, rows)

    def test_terminal_gets_a_plot_by_default(self):
        terminal, inside = pty.openpty()
        try:
            process = subprocess.Popen([PROGRAM, "compare", "a.txt", "--methods", "implicit", "--grid", "0:0", "--epochs",
                                        "4"], cwd=self.folder, stdout=inside, stderr=subprocess.PIPE)
            os.close(inside)
            seen = rest_of(terminal)
            process.communicate(timeout=60)
        finally:
            os.close(terminal)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"+----------", seen)
        self.assertIn(b"A implicit", seen)

    def test_ctrl_c_prints_the_finished_runs(self):
        terminal, inside = pty.openpty()  # for the progress line with the number of runs done
        process = subprocess.Popen([PROGRAM, "compare", "a.txt", "--methods", "implicit,umax", "--grid=-9:9", "--seconds",
                                    "1", "--json-file", "r.json"], cwd=self.folder, stdout=subprocess.PIPE, stderr=inside)
        os.close(inside)
        said = b""
        try:
            while not re.search(rb"[1-9]\d*/38 runs", said):
                self.assertIsNone(process.poll(), said)
                said += os.read(terminal, 4096)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=LIMIT_SECONDS)
            said += rest_of(terminal)
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
        self.assertEqual(process.returncode, 130, said)
        done = int(re.search(rb"stopped after (\d+) run", said)[1])
        self.assertIn("implicit", table_of(out.decode(), "method"))
        with open(self.path("r.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertTrue(found["interrupted"])
        self.assertEqual(len(found["runs"]), done)
        self.assertLess(done, 38)


class Tune(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 200, rows=1500)

    def tune(self, *more, name="r.json"):
        result = self.fine("tune", "a.txt", "--try", "step=0.001,1,10,1e6", "--try", "ridge=0,0.1", "--epochs", 8,
                           "--json-file", name, *more)
        with open(self.path(name), encoding="utf-8") as file:
            return result, json.load(file)

    def test_better_half_goes_on_and_the_best_is_listed_first(self):
        result, found = self.tune("--normalize", "l2")
        trials = found["trials"]
        self.assertEqual(len(trials), 8)
        self.assertEqual(sorted(trial["epochs"] for trial in trials), [1, 1, 1, 1, 2, 2, 4, 8])
        self.assertEqual(trials[0]["state"], "kept")
        rows = table_of(result.stdout, "step ")
        self.assertGreaterEqual(len(rows), 4)
        self.assertRegex(result.stdout, r"trials  8 of up to 8 epochs on 900 of 1500 rows, judged by 100 other rows")
        next_line = re.search(r"(?m)^next    truemax (.*)$", result.stdout)[1]
        self.assertIn("--normalize l2", next_line)
        self.assertIn(f"--step {trials[0]['tried']['step']:g}", next_line)
        # The next command trains what was tried: auto, with nothing left to tune.
        self.assertNotIn("--method", next_line)
        trained = self.fine(*shlex.split(next_line)).stdout
        self.assertIn("draw head-blocks", trained)
        self.assertIn("8 epochs", trained)
        self.assertNotIn("to be tuned", trained)

    def test_result_does_not_depend_on_threads(self):
        def without_clock(found):
            for trial in found["trials"]:
                del trial["seconds"]
            return found
        one = without_clock(self.tune("--threads", 1)[1])
        self.assertEqual(without_clock(self.tune("--threads", 4)[1]), one)
        self.assertNotEqual(without_clock(self.tune("--threads", 1, "--seed", 2)[1]), one)

    def test_random_combinations_judged_on_a_file(self):
        result, found = self.tune("--random", 3, "--valid", "t.txt", "--subset", 1)
        self.assertEqual(len(found["trials"]), 3)
        self.assertIn("on 1500 of 1500 rows, judged by 200 other rows", result.stdout)

    def test_all_diverged_is_exit_code_three(self):
        result = truemax("tune", "a.txt", "--try", "step=1e10,1e12", "--method", "vanilla", "--epochs", 4, cwd=self.folder)
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("all trials diverged; try smaller steps", result.stderr)


class Refusals(RefusalTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt")

    def test_of_compare(self):
        def no(*more, words):
            self.refused(["compare", "a.txt", *more], *words)
        no("--methods", "implicit,nosuch", words=["'nosuch' is not a method", "truemax methods"])
        no("--methods", "umax:delta=-1", words=["umax:delta=-1", "--delta"])
        no("--methods", "umax:nosuch=1", words=["'nosuch' is not an option"])
        no("--methods", "umax:epochs=1", words=["'epochs' is not for --methods"])
        no("--grid", "3:1", words=["--grid '3:1'"])
        no("--by", "test", words=["--by test", "add --test"])
        no("--seconds", 1, "--epochs", 1, words=["--seconds and --epochs"])
        no("--test", "a.txt", "--test", "a.txt", words=["--test was given 2 times"])
        no("a.txt", words=["named twice"])
        no("--plot", "no/such/p.svg", words=["--plot"])
        no("--plot", "a.txt", words=["--plot a.txt: this is an input"])
        no("--json-file", "-", words=["--json-file takes the name of a file", "--json for standard output"])
        no("--json-file", "a.txt", words=["--json-file a.txt: this is an input"])
        no("--json-file", "p.svg", "--plot", "p.svg", words=["--json-file p.svg: the plot goes there"])
        no("--json", "--plot", "-", words=["--json and --plot -"])
        no("nosuch.txt", words=["nosuch.txt"])

    def test_of_tune(self):
        def no(*more, words):
            self.refused(["tune", "a.txt", *more], *words)
        no(words=["nothing to try", "--try step="])
        no("--try", "step", words=["no '='"])
        no("--try", "nosuch=1", words=["'nosuch' is not an option of training"])
        no("--try", "step=1,x", words=["--step 'x'"])
        no("--try", "step=1", "--epochs", 0, words=["--epochs '0'"])
        no("--try", "step=1", "--valid", "a.txt", "--valid-share", 0.2, words=["--valid and --valid-share"])
        no("--try", "step=1", "--json-file", "a.txt", words=["--json-file a.txt: this is an input"])

    def test_file_after_json_is_pointed_to_json_file(self):
        self.write("old", '{"runs":[]}')
        for command, more in (("compare", ["--epochs", 1]), ("tune", ["--try", "step=1"])):
            for file in ("r.json", "absent", "-", "old"):
                for words in (["--json", file], [f"--json={file}"]):
                    with self.subTest(command, words=words):
                        self.refused([command, "a.txt", *more, *words], f"type --json-file {file} for a file")
        self.refused(["tune", "a.txt", "--json", "a.txt"], "type --json-file a.txt for a file")


if __name__ == "__main__":
    unittest.main()
