#!/usr/bin/python3
"""--help, --help-all, the man page and bash completion; --json in every command; old spellings."""
import json
import os
import re
import shlex
import shutil
import subprocess
import unittest

import model_reader
from support import ProgramTest, RefusalTest, events, last_evaluation, skip, truemax

COMMANDS = ("train", "plan", "evaluate", "predict", "index", "inspect", "vectors", "nearest", "generate", "convert", "compare",
            "tune", "report", "methods")


def options_of(text):
    """The options that a help text lists, without --no-NAME."""
    return re.findall(r"(?m)^  --([a-z][a-z-]*)", text.split("Example:")[0])


class Help(ProgramTest):
    def test_help_is_short_and_help_all_is_complete(self):
        page = self.fine("options").stdout
        for command in ("train", "compare", "tune"):
            with self.subTest(command):
                short, whole = (self.fine(command, flag).stdout for flag in ("--help", "--help-all"))
                section = re.search(rf"(?ms)^## truemax {command} .*?(?=^## |\Z)", page)[0]
                self.assertEqual(sorted(options_of(whole)), sorted(re.findall(r"(?m)^\| `--([a-z-]+)", section)))
                self.assertTrue(10 <= len(options_of(short)) <= 15, options_of(short))
                self.assertLess(set(options_of(short)), set(options_of(whole)))
                self.assertIn(f"'truemax {command} --help-all' lists all {len(options_of(whole))} options", short)
                headings = re.findall(r"(?m)^(\w[\w ]*):$", whole.split("Example:")[0])
                self.assertEqual(headings, re.findall(r"(?m)^### (.*)$", section))
                self.assertGreater(len(headings), 5)
                self.assertLessEqual(max(map(len, re.sub(r"(?m)^  --\S+ \S+$", "", whole).split("Example:")[0].splitlines())), 100)

    def test_help_of_a_small_command_has_all_options(self):
        for command in ("evaluate", "predict", "generate", "convert", "inspect", "vectors", "nearest", "report", "methods"):
            with self.subTest(command):
                text = self.fine(command, "--help").stdout
                self.assertEqual(sorted(options_of(text)), sorted(options_of(self.fine(command, "--help-all").stdout)))
                self.assertNotIn("--help-all' lists", text)

    def test_help_names_the_commands(self):
        for arguments in (["help", "train"], ["train", "--help"]):
            self.assertIn("usage: truemax train TRAIN [OPTIONS]", self.fine(*arguments).stdout)
        for arguments in (["help"], ["--help"]):
            said = self.fine(*arguments).stdout
            self.assertEqual(re.findall(r"(?m)^  (\w+)  ", said.split("Options:")[0]), [*COMMANDS, "options"])

    def test_defaults_are_those_of_the_plain_command(self):
        said = " ".join(self.fine("train", "--help-all").stdout.split())
        for words in ("Default: linear (named methods: decay).", "Default: shuffle (named methods: random).",
                      "Default: head-blocks (named methods: uniform).", "Default: 0.1 (named methods: 0).",
                      "Default: found by trials (named methods: 50).",
                      "--intercept, --no-intercept Give every class an intercept. Default: on (named methods: off)."):
            self.assertIn(words, said)
        self.assertIn("Default: decay (auto: linear).", " ".join(self.fine("compare", "--help-all").stdout.split()))

    def test_the_plain_command_does_what_the_defaults_say(self):
        self.generate("a.txt")
        self.fine("train", "a.txt", "--model", "m.safetensors", "--log", "m.jsonl")
        log = events(self.path("m.jsonl"))
        asked, chosen = log[0]["config"], [e for e in log if e["event"] == "chosen"][0]["config"]
        for name, value in (("schedule", "linear"), ("visit", "shuffle"), ("intercept", True), ("valid-share", 0.1),
                            ("start-at-frequencies", True), ("eval-every", 0)):
            self.assertEqual(asked[name], value, name)
        self.assertEqual(chosen["draw"], "head-blocks")

    def test_an_option_of_one_method_names_it(self):
        said = self.fine("train", "--help-all").stdout
        for option, user in (("delta", "umax"), ("softplus-bend", "softplus"), ("rho", "prox, scent"),
                             ("active", "--draw active")):
            self.assertRegex(said, rf"(?m)^  --{option} \S+ +{user}: ")

    def test_unlimited_and_zero_both_mean_no_limit(self):
        page = self.fine("options").stdout
        for name in ("steps", "seconds", "max-rows", "max-features"):
            self.assertRegex(page, rf"(?m)^\| `--{name} \w+\\\|unlimited` \| unlimited \|")
        self.assertNotRegex(page, r"0: (no limit|all\.|all cores)|0 keeps all")
        self.generate("a.txt")
        models = []
        for word in (0, "unlimited"):
            self.fine("train", "a.txt", "--method", "implicit", "--epochs", 2, "--steps", word, "--seconds", word,
                      "--max-rows", word, "--max-features", word, "--model", "m.safetensors", "--log", "m.jsonl")
            config = events(self.path("m.jsonl"))[0]["config"]
            self.assertEqual([config[name] for name in ("steps", "seconds", "max-rows", "max-features")], [0] * 4)
            models.append(self.read("m.safetensors"))
        self.assertEqual(*models)

    def test_help_gives_scikit_learn_names(self):
        said = " ".join(self.fine("train", "--help").stdout.split())
        self.assertIn("as eta0 of scikit-learn's SGDClassifier", said)
        self.assertIn("mu = 1/C of LogisticRegression (2/C of two classes) = alpha*N of SGDClassifier", said)

    def test_a_step_is_eta0_times_the_gradient_of_a_row(self):
        """All classes, W = 0: after one step the label's weights are step (1 - 1/K) x, those of others -step/K x."""
        self.write("both.txt", "2 3 2\n0 0:1 1:2\n1 2:1\n")
        self.fine("train", "both.txt", "--method", "exact", "--visit", "file", "--steps", 1, "--step", 0.5, "--model",
                  "m.safetensors", "--log", "none")
        weights = model_reader.read_model(self.path("m.safetensors"))[1]["weight"]
        self.assertEqual(weights.tolist(), [[0.25, 0.5, 0], [-0.25, -0.5, 0]])


class Examples(ProgramTest):
    def test_every_example_of_the_help_works(self):
        self.fine("generate", "train.txt", "--rows", 500, "--test", "test.txt", "--test-rows", 100)
        self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1, "--model", "model.safetensors", "--log", "none")
        for command in COMMANDS:
            examples = re.findall(r"(?m)^  truemax (.*)$", self.fine(command, "--help").stdout.split("Example:")[1])
            self.assertIn(command, [example.split()[0] for example in examples])
            for example in examples:
                with self.subTest(example):
                    words = shlex.split(example.split(" < ")[0])
                    self.fine(*words, stdin=self.read("test.txt") if " < " in example else b"")


class Json(ProgramTest):
    def test_every_command_prints_json(self):
        def said(*arguments):
            result = self.fine(*arguments, "--json")
            self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
            return json.loads(result.stdout)
        made = said("generate", "a.txt", "--rows", 400, "--classes", 12, "--test", "t.txt", "--test-rows", 50)
        self.assertEqual([(file["path"], file["rows"]) for file in made["files"]], [("a.txt", 400), ("t.txt", 50)])
        self.assertEqual(said("convert", "a.txt", "a.cache")["rows"], 400)
        trained = said("train", "a.txt", "--test", "t.txt", "--epochs", 3, "--model", "m.safetensors", "--log", "m.jsonl")
        self.assertEqual((trained["method"], trained["epochs"], trained["model"]), ("prox", 3, "m.safetensors"))
        self.assertEqual(trained["test"], last_evaluation(self.path("m.jsonl"))["test"])
        self.assertEqual(said("evaluate", "m.safetensors", "t.txt")["rows"], 50)
        self.assertEqual(said("inspect", "m.safetensors")["method"], "prox")
        compared = said("compare", "a.txt", "--methods", "implicit,exact", "--grid", "0:1", "--epochs", 2)
        self.assertEqual(len(compared["runs"]), 4)
        tuned = said("tune", "a.txt", "--try", "step=0.1,1", "--epochs", 2)
        self.assertEqual(len(tuned["trials"]), 2)
        self.assertTrue(tuned["next"].startswith("truemax train a.txt"))
        self.assertEqual(said("report", "m.jsonl", "--out", "r.html"), {"page": "r.html", "runs": 1})
        self.assertEqual(said("methods")["aliases"][0]["name"], "bsgd")
        listed = {option["name"]: option for option in said("options")["train"]}
        self.assertEqual((listed["threads"]["default"], listed["threads"]["value"]), ("all", "COUNT|all"))
        self.assertEqual(len(self.fine("predict", "m.safetensors", "t.txt", "--json").stdout.splitlines()), 50)

    def test_json_file_has_the_same_keys(self):
        self.generate("a.txt")
        for arguments in (("compare", "a.txt", "--methods", "implicit", "--grid", "0:0", "--epochs", 1),
                          ("tune", "a.txt", "--try", "step=1", "--epochs", 1)):
            printed = json.loads(self.fine(*arguments, "--json", "--json-file", "r.json").stdout)
            written = json.loads(self.read("r.json"))
            printed.pop("next", None)
            self.assertEqual(printed.keys(), written.keys())

    def test_data_file_may_follow_json(self):
        self.generate("a.txt")
        self.assertEqual(len(json.loads(self.fine("compare", "--methods", "implicit", "--grid", "0:0", "--epochs", 1,
                                                  "--json", "a.txt").stdout)["runs"]), 1)


class OldSpellings(RefusalTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt")

    def test_warm_start_is_refused_with_its_new_name(self):
        for word, now in (("--warm-start", "--start-at-frequencies"), ("--no-warm-start", "--no-start-at-frequencies"),
                          ("--warm-start=on", "--start-at-frequencies")):
            for command in (["train", "a.txt"], ["tune", "a.txt", "--try", "step=1"]):
                with self.subTest(word, command=command[0]):
                    self.refused([*command, word], f"{word.split('=')[0]} is called {now} here; see")
        self.refused(["tune", "a.txt", "--try", "warm-start=on,off"], "'warm-start' has another name here; write start-at-f")
        self.refused(["compare", "a.txt", "--methods", "implicit:warm-start=on"], "write start-at-frequencies")

    def test_names_of_other_programs_lead_to_ours(self):
        for word, ours in (("--lr", "--step"), ("--C", "--ridge"), ("--batch-size", "--rows-per-step"),
                           ("--max-iter", "--epochs"), ("--n-jobs", "--threads"), ("--output", "--model")):
            with self.subTest(word):
                self.refused(["train", "a.txt", word, 1], f"{word} is called {ours} here; see 'truemax train --help'")

    def test_run_without_an_end_is_refused(self):
        self.refused(["train", "a.txt", "--method", "implicit", "--epochs", "unlimited"], "--epochs unlimited: .*--seconds")

    def test_help_takes_no_unknown_option(self):
        self.refused(["help", "--nope"], "help --nope")

    def old_log(self, name, **changes):
        """The log as an older version wrote it."""
        lines = self.read(name).decode().splitlines()
        start = json.loads(lines[0])
        config = start["config"]
        config["warm-start"] = config.pop("start-at-frequencies")
        config.update(changes)
        self.write("old.jsonl", "\n".join([json.dumps(start), *lines[1:]]) + "\n")

    def weights(self, name):
        content = self.read(name)
        return content[8 + int.from_bytes(content[:8], "little"):]

    def test_old_logs_can_be_replayed(self):
        for options in (("--method", "implicit", "--intercept", "--start-at-frequencies"), ("--method", "implicit", "--intercept")):
            self.fine("train", "a.txt", *options, "--epochs", 2, "--model", "new.safetensors", "--log", "new.jsonl")
            self.old_log("new.jsonl")
            self.fine("train", "a.txt", "--replay", "old.jsonl", "--model", "again.safetensors", "--log", "none")
            self.assertEqual(self.weights("again.safetensors"), self.weights("new.safetensors"))

    def test_bsgd_is_importance_with_log_q(self):
        common = ("--classes-per-step", 3, "--epochs", 3, "--step", 1)
        self.fine("train", "a.txt", "--method", "importance", *common, "--model", "i.safetensors", "--log", "none")
        self.fine("train", "a.txt", "--method", "importance", "--no-log-q", "--draw", "frequency", *common, "--model",
                  "without.safetensors", "--log", "none")
        self.fine("train", "a.txt", "--method", "importance", "--draw", "frequency", *common, "--model", "with.safetensors",
                  "--log", "none")
        self.assertNotEqual(self.weights("with.safetensors"), self.weights("without.safetensors"))
        self.fine("train", "a.txt", "--method", "bsgd", *common, "--model", "b.safetensors", "--log", "b.jsonl")
        self.assertEqual(self.weights("b.safetensors"), self.weights("i.safetensors"))
        said = self.fine("train", "a.txt", "--method", "bsgd", "--no-log-q", "--draw", "frequency", *common, "--model",
                         "f.safetensors", "--log", "none").stderr
        self.assertIn("--log-q has no effect on bsgd", said)
        self.assertEqual(self.weights("f.safetensors"), self.weights("with.safetensors"))
        self.old_log("b.jsonl", **{"log-q": False})
        self.fine("train", "a.txt", "--replay", "old.jsonl", "--model", "again.safetensors", "--log", "none")
        self.assertEqual(self.weights("again.safetensors"), self.weights("b.safetensors"))
        self.assertRegex(self.fine("methods").stdout, r"(?m)^bsgd +importance +")


class Man(ProgramTest):
    def test_man_page_has_every_option_and_no_warnings(self):
        page = self.fine("help", "--man").stdout
        self.assertTrue(page.startswith(".TH TRUEMAX 1 "))
        said = page.replace("\\-", "-")
        for command in COMMANDS:
            self.assertIn(f"\n.SH TRUEMAX {command.upper()}\n", page)
            for option in options_of(self.fine(command, "--help-all").stdout):
                self.assertIn(f"\\fB--{option}\\fR", said)
        if shutil.which("man") is None or shutil.which("groff") is None:
            skip("there is no man to look at the page with")
        path = self.write("truemax.1", page)
        result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, timeout=60,
                                env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}, check=False)
        self.assertEqual((result.returncode, result.stderr.decode()), (0, ""))
        shown = " ".join(result.stdout.decode().split())
        self.assertIn("truemax - train softmax models with very many classes", shown)
        self.assertIn("--start-at-frequencies, --no-start-at-frequencies", shown)

    def test_completion_for_other_shells_is_refused(self):
        result = truemax("help", "--completion", "fish")
        self.assertEqual(result.returncode, 2)
        self.assertIn("type --completion bash", result.stderr)


class Completion(ProgramTest):
    def setUp(self):
        super().setUp()
        if shutil.which("bash") is None:
            skip("there is no bash")
        self.write("truemax.bash", self.fine("help", "--completion", "bash").stdout)
        self.write("train.txt", "")
        os.mkdir(self.path("folder"))

    def completed(self, *words):
        """The completions that bash offers for the last word."""
        script = f"""source ./truemax.bash; COMP_WORDS=(truemax {' '.join(map(shlex.quote, words))})
                     COMP_CWORD={len(words)}; $(complete -p truemax | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
                     printf '%s\\n' "${{COMPREPLY[@]}}\""""
        result = subprocess.run(["bash", "--norc", "-c", script], cwd=self.folder, capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_commands(self):
        self.assertEqual(self.completed("tr"), ["train"])
        self.assertEqual(self.completed(""), [*COMMANDS, "options", "help", "--help", "--version"])
        self.assertEqual(self.completed("help", "tu"), ["tune"])

    def test_options(self):
        self.assertEqual(self.completed("train", "train.txt", "--ste"), ["--step", "--steps"])
        self.assertEqual(self.completed("train", "--no-inter"), ["--no-intercept"])
        self.assertIn("--help-all", self.completed("train", "--h"))
        self.assertEqual(self.completed("predict", "m", "--ste"), [])
        for command in COMMANDS:
            wanted = set(options_of(self.fine(command, "--help-all").stdout))
            offered = {option.removeprefix("--") for option in self.completed(command, "--")}
            self.assertLessEqual(wanted, offered)

    def test_values(self):
        self.assertEqual(self.completed("train", "--method", "im"), ["implicit", "importance"])
        self.assertEqual(self.completed("train", "--method", "=", "bs"), ["bsgd"])
        self.assertEqual(self.completed("train", "--format", "l"), ["lshtc", "libsvm"])
        self.assertEqual(self.completed("generate", "--format", ""), ["xmlrepository", "fasttext", "lshtc", "libsvm"])
        self.assertEqual(self.completed("train", "--step", ""), [])

    def test_files_elsewhere(self):
        self.assertEqual(self.completed("train", "tra"), ["train.txt"])
        self.assertEqual(self.completed("train", "train.txt", "--test", "tra"), ["train.txt"])
        self.assertEqual(sorted(self.completed("compare", "train.txt", "")), ["folder", "train.txt", "truemax.bash"])


if __name__ == "__main__":
    unittest.main()
