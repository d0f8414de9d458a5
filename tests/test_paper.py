#!/usr/bin/python3
"""experiments/paper as a whole: the authors' records reproduced on the small sets, kept runs, the report in a browser.
`./dev paper` runs all of it; its parts are tested in test_paper_parts.py."""
import contextlib
import dataclasses
import fcntl
import gzip
import io
import json
import os
import re
import subprocess
import sys
import unittest

import browser
from support import DATA, PROGRAM, ROOT, ProgramTest, data_file

sys.path.insert(0, ROOT)
from experiments.paper import authors, layout, plan, protocol, registry, runs  # noqa: E402


class AsRecorded(ProgramTest):
    """The authors' final train log-loss, one seed: within 10% for the double-sum methods, the double softmax of the
    others within 5%."""

    def check(self, name, methods=protocol.PAPER_METHODS):
        data_file(name)
        found, _ = registry.find(registry.BY_NAME[name], [DATA])
        made = plan.Plan([found], self.path("data"), methods=methods, seeds=(1,))
        runner = runs.Runner(PROGRAM, self.path("out"))
        outcomes = runner.all([dataclasses.replace(spec, every=0, double_softmax=spec.double_softmax[:1])
                               for spec in made.as_recorded() if spec.method != protocol.LONGER], 2, name)
        self.assertEqual(len(outcomes), len(methods))
        for key, outcome in outcomes.items():
            method = protocol.BY_NAME[key[3]]
            theirs = authors.load()["tuned"][name][method.name]["train"][-1][2]
            self.assertEqual(outcome["diverged"], "", f"{name} {method.name}")
            ours = plan.end_loss(outcome)
            if method.biased_of_paper:
                ours = outcome["double_softmax"]["50"]["double_softmax"]
            print(f"{name} {method.title}: {ours:.4f}, authors {theirs:.4f} ({100 * (ours / theirs - 1):+.1f}%)")
            self.assertLess(abs(ours / theirs - 1), 0.05 if method.biased_of_paper else 0.10, f"{name} {method.name}")

    def test_bibtex(self):
        self.check("bibtex")

    def test_delicious(self):
        self.check("delicious")

    def test_mnist(self):
        self.check("mnist", tuple(protocol.BY_NAME[name] for name in ("implicit", "umax", "vanilla")))


class Whole(ProgramTest):
    """`./dev paper-quick` on a generated set in the place of Bibtex."""

    def paper(self, *more, program=PROGRAM):
        return subprocess.run(["/usr/bin/python3", "-m", "experiments.paper", "--quick", "--data", self.path("data"),
                               "--out", self.path("out"), "--program", program, *more], cwd=ROOT, capture_output=True,
                              text=True)

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("data/bibtex"))
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 100, rows=1200)  # a tenth holds a batch of 100
        for part in ("train", "test"):
            with gzip.open(self.path(f"data/bibtex/{part}.txt.gz"), "wb") as file:
                file.write(self.read(f"{part}.txt"))

    def test_runs_are_kept_and_the_page_works_in_a_browser(self):
        done = self.paper()
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = {}
        for at, _, files in os.walk(self.path("out/runs")):
            kept.update({os.path.join(at, name): os.stat(os.path.join(at, name)).st_mtime_ns for name in files})
        self.assertGreater(len(kept), 50)
        self.assertTrue(all(name.endswith(".json") for name in kept), "no half-made file is left")
        again = self.paper()
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual({name: os.stat(name).st_mtime_ns for name in kept}, kept)
        self.assertIn("K is 12, not 147", self.read("out/tables/table-1.csv").decode())

        with open(self.path("out/report.html"), encoding="utf-8") as file:
            data = json.loads(re.search(r'id="data">(.*?)</script>', file.read(), re.S)[1])
        plots = [plot for section in data["sections"] for plot in section["plots"]]
        made = [table["id"] for section in data["sections"] for table in section.get("tables", [])]
        for table in ("table-1", "table-2", "recorded", "table-3-recorded", "table-3", "table-4"):
            self.assertIn(table, made)
        for table in ("table-1", "table-2", "table-4"):  # missing sets keep the authors' values
            self.assertIn("WikiSmall", self.read(f"out/tables/{table}.csv").decode())
        for figure in ("figure-1-bibtex", "figure-1-wikismall", "figure-1-written-bibtex", "figure-4-bibtex",
                       "figure-4-wikismall", "figure-4-written-bibtex", "figure-4-written-error-bibtex",
                       "figure-2-bibtex",
                       "figure-2-tenth-bibtex", "figure-3-bibtex", "figure-3-authors-umax_raman",
                       "figure-3-authors"):
            self.assertIn(figure, [plot["id"] for plot in plots])
        for plot in plots:
            for kind in ("svg", "png"):
                self.assertTrue(os.path.exists(self.path(f"out/figures/{plot['id']}.{kind}")), plot["id"])
        for dark in (False, True):
            html, console = browser.open_page(self.path("out/report.html"), dark=dark,
                                              picture=f"paper{'-dark' * dark}.png")
            self.assertEqual(console, [])
            self.assertIn('data-ready="yes"', html)
            for plot in plots:
                self.assertRegex(html, rf'<figure id="{re.escape(plot["id"])}">.*?<svg.*?<path')

    def test_runs_of_another_program_are_not_reused(self):
        runner = runs.Runner(PROGRAM, self.path("out"))
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), seeds=(1,), epochs=2)
        spec = made.final(found, protocol.BY_NAME["implicit"], 1.0, 1)
        runner.make(spec)
        self.assertIsNotNone(runner.found(spec))
        self.assertIsNone(runner.found(dataclasses.replace(spec, seed=2)))
        other = self.write("other", "another program")
        self.assertIsNone(runs.Runner(other, self.path("out")).found(spec))
        self.assertIsNotNone(runs.Runner(other, self.path("out"), any_build=True).found(spec))

    def test_progress_shows_the_time_left(self):
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), seeds=(1,))
        specs = [dataclasses.replace(made.final(found, protocol.BY_NAME["implicit"], step, 1), cost=cost)
                 for step, cost in ((1.0, 60.0), (10.0, 120.0))]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            shown = runs.Progress("Bibtex", 3, specs, 2, 0.0)
            shown.begin -= 60.0  # one minute has passed
            shown.done(specs[0], {"diverged": "", "evaluations": [{"train": {"log_loss": 1.25}}]})
        self.assertEqual(said.getvalue(), "Bibtex: 3 runs, 1 there already, about 1.5 min\n")  # no progress line without a terminal
        self.assertEqual(shown.line(specs[0], {"diverged": "", "evaluations": [{"train": {"log_loss": 1.25}}]}),
                         "  1 left, 2.0 min, in all 2.0 min; bibtex implicit step 1 seed 1: log-loss 1.2500")
        self.assertTrue(shown.line(specs[1], {"diverged": "why", "evaluations": []}).endswith("seed 1: diverged"))

    def test_variant_changes_only_what_it_names(self):
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), seeds=(1,))
        recorded = {spec.method: spec for spec in made.as_recorded()}
        changes = {}
        for spec in made.variants():
            method, _, name = spec.method.partition("-")
            before, after = recorded[method].options, spec.options
            changes.setdefault(name, {})[method] = (sorted(set(before) - set(after)), sorted(set(after) - set(before)),
                                                    spec.files == recorded[method].files)
        self.assertEqual(set(changes), {one.name for one in protocol.VARIANTS})
        self.assertEqual(changes["visit"]["umax"], (["file"], ["random"], True))
        self.assertEqual(changes["draw"]["vanilla"], (["uniform-skip"], ["uniform"], True))
        self.assertEqual(changes["rows"]["implicit"], ([], [], False))
        self.assertEqual(changes["noise"]["nce"], (["--label-noise"], [], True))
        self.assertEqual(changes["log-q"]["is"], (["--no-log-q"], [], True))
        (before,), (after,), _ = changes["averaged"]["ove"]
        self.assertEqual(float(before), 100 * float(after))

    def test_bad_options_are_refused_in_one_sentence(self):
        os.makedirs(self.path("out"))
        for more, code, why in ((["--jobs", "0"], 2, "--jobs: expected a whole number"),
                                (["--data", self.path("typo")], 2, "there is no such folder"),
                                (["--sets", "bibtex, other"], 2, "--sets other: there is no such set"),
                                (["--docs"], 2, "--docs writes docs/paper.md from all experiments")):
            done = self.paper(*more)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(why, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        with open(self.path("out/lock"), "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = self.paper()
        self.assertEqual((done.returncode, "another run is at work" in done.stderr), (2, True), done.stderr)

    def test_double_softmax_is_measured_on_the_training_rows(self):
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), seeds=(1,), epochs=2)
        spec = made.spec(found, "recorded", protocol.RECORDED, protocol.BY_NAME["nce"], 1.0, 1, 2, (2,))
        self.assertEqual(spec.max_rows, registry.MAX_ROWS)
        cut = [option if option != str(registry.MAX_ROWS) else "700" for option in spec.options]
        outcome = runs.Runner(PROGRAM, self.path("out")).make(dataclasses.replace(spec, options=tuple(cut)))
        self.assertEqual(outcome["data"]["rows"], 700)
        self.assertAlmostEqual(outcome["double_softmax"]["2"]["log_loss"],
                               outcome["evaluations"][-1]["train"]["log_loss"], 5)

    def test_unreadable_kept_run_is_run_again(self):
        runner = runs.Runner(PROGRAM, self.path("out"))
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        spec = plan.Plan([found], self.path("made"), epochs=1).final(found, protocol.BY_NAME["implicit"], 1.0, 1)
        runner.make(spec)
        with open(runner.path(spec), "w", encoding="utf-8"):
            pass
        self.assertIsNone(runner.found(spec))

    def test_leftovers_of_a_killed_run_are_removed(self):
        os.makedirs(self.path("out/runs/x"))
        dead = self.write(f"out/runs/x/a.part{2**22 + 1}.jsonl", "half")  # above the largest process id
        alive = self.write(f"out/runs/x/a.part{os.getpid()}.jsonl", "half")
        runs.Runner(PROGRAM, self.path("out"))
        self.assertEqual((os.path.exists(dead), os.path.exists(alive)), (False, True))

    def test_chosen_step_is_the_best_on_held_out_rows(self):
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), methods=(protocol.BY_NAME["exact"],), epochs=20)
        outcomes = runs.Runner(PROGRAM, self.path("out")).all(made.searches(), 2, "steps")
        (tenth, _, judges, _), best = made.tenth_files(found), {}
        for step in made.steps(protocol.BY_NAME["exact"]):
            self.fine("train", tenth, "--normalize", "l2", "--method", "exact", "--visit", "random", "--step", step,
                      "--decay", 0.9, "--seed", 1, "--epochs", 20, "--model", f"{step}.safetensors", "--log", "none")
            for rows in (tenth, judges):
                best.setdefault(rows, []).append((self.metrics(f"{step}.safetensors", rows)["log_loss"], step))
        self.assertEqual(plan.choose(made, outcomes), {("bibtex", "exact"): min(best[judges])[1]})
        self.assertLess(min(best[judges])[1], min(best[tenth])[1])  # the fitted rows prefer a larger step

    def test_diverged_run_is_kept_as_diverged(self):
        runner = runs.Runner(PROGRAM, self.path("out"))
        found, _ = registry.find(registry.BY_NAME["bibtex"], [self.path("data")])
        made = plan.Plan([found], self.path("made"), seeds=(1,))
        outcome = runner.make(made.final(found, protocol.BY_NAME["vanilla"], 1000.0, 1))
        self.assertIn("diverged", outcome["diverged"])
        self.assertIsNone(plan.end_loss(outcome))
        self.assertEqual(layout.spread([None, None])["text"], "diverged")


if __name__ == "__main__":
    unittest.main()
