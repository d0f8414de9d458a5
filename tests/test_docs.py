#!/usr/bin/python3
"""Documents that must agree with the program: docs/options.md is what `truemax options` prints, docs/methods.md has
every method, links and paths exist. test_doc_blocks.py runs the commands and programs of the pages."""
import os
import re
import subprocess
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

    def test_options_page_lists_every_option_in_help(self):
        for command in ("train", "evaluate", "predict", "inspect", "generate", "convert", "compare", "tune"):
            with self.subTest(command):
                section = re.search(rf"(?ms)^## truemax {command} .*?(?=^## |\Z)", document("docs", "options.md"))[0]
                said = set(re.findall(r"--([a-z][a-z-]*)", truemax(command, "--help-all").stdout.split("Example:")[0]))
                named = set(re.findall(r"(?m)^\| `--([a-z-]+)", section))
                # includes options named in help texts, --no-NAME of switches, and --help itself
                for option in said - {"help", "help-all"}:
                    self.assertTrue(option.removeprefix("no-") in named, f"--{option}")

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
            text = re.sub(r"(?ms)^ *```.*?^ *```", "", document(os.path.relpath(folder, ROOT), name))
            for target in re.findall(r"\]\((?!http)([^)#]+)", text):
                seen += 1
                self.assertTrue(os.path.exists(os.path.join(folder, target)), f"{name}: {target}")
        self.assertGreater(seen, 3)

    def test_prose_is_at_most_100_columns_wide(self):
        for folder, name in documents():
            if name == "options.md":  # printed by the program
                continue
            in_block = False
            for number, line in enumerate(document(os.path.relpath(folder, ROOT), name).splitlines(), 1):
                in_block ^= line.lstrip().startswith("```")
                if not in_block and not line.startswith(("|", "    ")):  # tables and formulas may be wider
                    self.assertLessEqual(len(line), 100, f"{name}:{number}")


if __name__ == "__main__":
    unittest.main()
