#!/usr/bin/python3
"""Documents that must agree with the program: docs/options.md is what `truemax options` prints, the reader in
docs/model-file.md reads a model, commands on the pages work, and links and paths exist."""
import os
import re
import subprocess
import tempfile
import unittest

from support import PROGRAM, ROOT, truemax


def document(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def documents():
    """The folder and the name of every document."""
    for folder, _, names in os.walk(ROOT):
        if os.path.relpath(folder, ROOT).split(os.sep)[0] not in ("build", ".git"):
            yield from ((folder, name) for name in names if name.endswith(".md"))


class Documents(unittest.TestCase):
    def test_options_page_matches_the_program(self):
        printed = subprocess.run([PROGRAM, "options"], capture_output=True, check=True).stdout.decode()
        self.assertEqual(document("docs", "options.md"), printed, "run: truemax options > docs/options.md")

    def test_documented_reader_reads_a_model(self):
        code = re.search(r"```python\n(.*?)```", document("docs", "model-file.md"), re.S)[1]
        scope = {}
        exec(code, scope)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(truemax("generate", "t.txt", "--rows", 500, "--classes", 20, cwd=folder).returncode, 0)
            self.assertEqual(truemax("train", "t.txt", "--epochs", 2, "--model", "m.safetensors", cwd=folder).returncode, 0)
            tensors, info = scope["read_model"](os.path.join(folder, "m.safetensors"))
        self.assertEqual(tensors["weight"].shape, (20, 1000))
        self.assertEqual(info["classes"], [str(k) for k in range(20)])

    def test_options_page_lists_every_option_in_help(self):
        for command in ("train", "evaluate", "predict", "inspect", "generate", "compare", "tune"):
            with self.subTest(command):
                section = re.search(rf"(?ms)^## truemax {command} .*?(?=^## |\Z)", document("docs", "options.md"))[0]
                said = set(re.findall(r"--([a-z][a-z-]*)", truemax(command, "--help-all").stdout.split("Example:")[0]))
                named = set(re.findall(r"(?m)^\| `--([a-z-]+)", section))
                # includes options named in help texts, --no-NAME of switches, and --help itself
                for option in said - {"help", "help-all"}:
                    self.assertTrue(option.removeprefix("no-") in named, f"--{option}")

    def test_generate_command_of_the_formats_page_works(self):
        command = re.search(r"(?m)^truemax (generate .*)$", document("docs", "formats.md"))[1]
        with tempfile.TemporaryDirectory() as folder:
            result = truemax(*command.split(), cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), ["train.txt"])

    def test_methods_page_has_bias_and_cost_of_every_method(self):
        page, seen = document("docs", "methods.md"), 0
        for line in truemax("methods").stdout.split("\n\n")[0].splitlines()[2:]:
            name, biased, _, _, cost = re.split(r"  +", line, maxsplit=4)
            seen += 1
            with self.subTest(name):
                self.assertIn(f"\n| `{name}` | {biased} | {cost} |", page)
                section = re.search(rf"(?ms)^### {name}$(.*?)(?=^##|\Z)", page)
                self.assertIsNotNone(section, "no section")
                self.assertEqual(section[1].strip().startswith("Biased"), biased == "yes")
        self.assertGreater(seen, 10)

    def test_methods_page_has_memory_of_every_draw(self):
        page, seen = document("docs", "methods.md"), 0
        for line in truemax("methods").stdout.split("\n\n")[2].splitlines()[2:]:
            name, memory, _ = re.split(r"  +", line, maxsplit=2)
            seen += 1
            self.assertRegex(page, rf"(?m)^\| `{name}` \|.*\| {memory} \|$")
        self.assertGreater(seen, 4)

    def test_paths_in_the_documents_exist(self):
        seen = 0
        for folder, name in documents():
            text = document(os.path.relpath(folder, ROOT), name)
            for path in re.findall(r"`((?:src|tests|docs|bench|cmake|experiments|include)/[\w./-]*)`", text):
                if "NAME" in path:  # a file yet to be written
                    continue
                seen += 1
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), f"{name}: {path}")
        self.assertGreater(seen, 10)

    def test_links_between_documents_resolve(self):
        seen = 0
        for folder, name in documents():
            for target in re.findall(r"\]\((?!http)([^)#]+)", document(os.path.relpath(folder, ROOT), name)):
                seen += 1
                self.assertTrue(os.path.exists(os.path.join(folder, target)), f"{name}: {target}")
        self.assertGreater(seen, 3)


if __name__ == "__main__":
    unittest.main()
