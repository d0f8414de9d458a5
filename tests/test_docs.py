#!/usr/bin/python3
"""Documents that must agree with the program: docs/options.md is what `truemax options` prints, the reader in
docs/model-file.md reads a model, and links between the documents lead somewhere."""
import os
import re
import subprocess
import tempfile
import unittest

from support import PROGRAM, ROOT, truemax


def document(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


class Documents(unittest.TestCase):
    def test_the_page_of_options_is_what_the_program_prints(self):
        printed = subprocess.run([PROGRAM, "options"], capture_output=True, check=True).stdout.decode()
        self.assertEqual(document("docs", "options.md"), printed, "run: truemax options > docs/options.md")

    def test_the_reader_of_the_model_page_reads_a_model(self):
        code = re.search(r"```python\n(.*?)```", document("docs", "model-file.md"), re.S)[1]
        scope = {}
        exec(code, scope)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(truemax("generate", "t.txt", "--rows", 500, "--classes", 20, cwd=folder).returncode, 0)
            self.assertEqual(truemax("train", "t.txt", "--epochs", 2, "--model", "m.safetensors", cwd=folder).returncode, 0)
            tensors, info = scope["read_model"](os.path.join(folder, "m.safetensors"))
        self.assertEqual(tensors["weight"].shape, (20, 1000))
        self.assertEqual(info["classes"], [str(k) for k in range(20)])

    def test_links_between_documents_lead_somewhere(self):
        seen = 0
        for folder, _, names in os.walk(ROOT):
            if os.path.relpath(folder, ROOT).split(os.sep)[0] in ("build", ".git"):
                continue
            for name in names:
                if name.endswith(".md"):
                    for target in re.findall(r"\]\((?!http)([^)#]+)", document(os.path.relpath(folder, ROOT), name)):
                        seen += 1
                        self.assertTrue(os.path.exists(os.path.join(folder, target)), f"{name}: {target}")
        self.assertGreater(seen, 3)


if __name__ == "__main__":
    unittest.main()
