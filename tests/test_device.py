#!/usr/bin/python3
"""--device: what is refused, what falls back to the CPU, and what logs and checkpoints say. No GPU is needed: the
library tests/device/emulated.cpp runs the kernels on the CPU."""
import json
import os
import shutil
import subprocess
import unittest

from support import OUTPUT, PROGRAM, ROOT, ProgramTest, RefusalTest, events, truemax

EMULATED = os.path.join(os.path.dirname(PROGRAM), "libtruemax_emulated.so")
NOWHERE = "/nowhere/libtruemax_cuda.so"
DATA = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n"
QUICK = ("--method", "prox", "--epochs", "2")


def with_library(path, **more):
    return {"TRUEMAX_CUDA_LIBRARY": path, **{name: str(value) for name, value in more.items()}}


class Refused(RefusalTest):
    def setUp(self):
        super().setUp()
        self.good = self.write("good.txt", DATA)

    def refused_with(self, environment, words, *options):
        self.refused(("train", self.good, *OUTPUT, *QUICK, *options), words, environment=environment)

    def test_without_library(self):
        self.refused_with(with_library(NOWHERE), "--device cuda: this truemax was built without it.*gpu build",
                          "--device", "cuda")

    def test_other_versions(self):
        self.refused_with(with_library(EMULATED, TRUEMAX_EMULATED_VERSION=99), "another version.*build it",
                          "--device", "cuda")

    def test_without_driver(self):
        self.refused_with(with_library(EMULATED, TRUEMAX_EMULATED_CARDS=-1), "no NVIDIA driver.*--device cpu",
                          "--device", "cuda")

    def test_without_card(self):
        self.refused_with(with_library(EMULATED, TRUEMAX_EMULATED_CARDS=0), "no GPU.*--device cpu", "--device", "cuda")

    def test_card_that_is_not_there(self):
        self.refused_with(with_library(EMULATED, TRUEMAX_EMULATED_CARDS=2),
                          "--device cuda:7: there are 2 cards, cuda:0 to cuda:1; choose", "--device", "cuda:7")

    def test_words_that_are_no_device(self):
        for word in ("gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cpu:0", ""):
            with self.subTest(word):
                self.refused_with({}, "--device.*one of cpu, cuda, cuda:N, auto", "--device", word)


class Start(ProgramTest):
    def test_program_needs_no_cuda_to_start(self):
        linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertIn("libstdc++", linked)
        self.assertNotIn("cuda", linked)


class OfUse(ProgramTest):
    """evaluate and predict."""

    def test_refused_without_gpu(self):
        self.write("good.txt", DATA)
        self.fine("train", "good.txt", *OUTPUT, *QUICK)
        for command in ("evaluate", "predict"):
            said = truemax(command, "M.safetensors", "good.txt", "--device", "cuda", cwd=self.folder,
                           environment=with_library(NOWHERE))
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertIn("--device cuda: this truemax was built without it", said.stderr)
            self.assertEqual(said.stdout, "")
            plain = self.fine(command, "M.safetensors", "good.txt")
            there = self.fine(command, "M.safetensors", "good.txt", "--device", "auto",
                              environment=with_library(NOWHERE))
            self.assertEqual(there.stdout, plain.stdout)


class Logs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("good.txt", DATA)

    def test_auto_without_gpu_is_the_cpu(self):
        self.fine("train", "good.txt", *QUICK, "--model", "a.safetensors")
        self.fine("train", "good.txt", *QUICK, "--device", "auto", "--model", "b.safetensors",
                  environment=with_library(NOWHERE))
        self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))
        start = events(self.path("b.jsonl"))[0]
        self.assertEqual((start["asked"]["device"], start["config"]["device"]), ("auto", "cpu"))
        self.assertNotIn("device", start)
        self.fine("train", "good.txt", "--replay", "b.jsonl", "--model", "c.safetensors")
        self.assertEqual(self.read("a.safetensors"), self.read("c.safetensors"))

    def test_plain_command_has_auto_and_named_methods_the_cpu(self):
        for options, why in ((("--seconds", "0.01"), "CPU: "), (QUICK, "CPU\n")):
            self.assertIn("device  " + why, self.fine("plan", "good.txt", *options, environment=with_library(NOWHERE)).stdout)
            self.fine("train", "good.txt", *options, "--model", "m.safetensors", "--log", "m.jsonl",
                      environment=with_library(NOWHERE))
            start = events(self.path("m.jsonl"))[0]
            self.assertNotIn("device", start["asked"])
            self.assertEqual(start["config"]["device"], "cpu")

    def refused_replay(self, words, *options):
        said = truemax("train", "good.txt", "--replay", "m.jsonl", "--model", "again.safetensors", *options,
                       cwd=self.folder)
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertRegex(said.stderr, words)
        self.assertFalse(os.path.exists(self.path("again.safetensors")))

    def test_replay_refuses_runs_on_a_gpu(self):
        self.fine("train", "good.txt", *QUICK, "--model", "m.safetensors", "--log", "m.jsonl")
        lines = events(self.path("m.jsonl"))
        card = {"kind": "cuda", "name": "Card X", "number": 0}
        moved = {"event": "resume", "epochs": 1, "steps": 4, "device": card}
        for name, edited in (("start", [{**lines[0], "device": card}, *lines[1:]]),
                             ("resumed there", [lines[0], moved, *lines[1:]])):
            with self.subTest(name):
                self.write("m.jsonl", "".join(json.dumps(line) + "\n" for line in edited))
                self.refused_replay(r"that run was on a GPU \(Card X\) and cannot be repeated.*train with its options")

    def test_runs_on_a_card_say_so(self):
        """Checkpoints move between devices: --device if it is given, else the one the run began with."""
        card = with_library(EMULATED)
        blocks = ("--method", "prox", "--draw", "blocks", "--classes-per-step", "16", "--checkpoint", "c.checkpoint")
        self.fine("train", "good.txt", *blocks, "--epochs", 1, "--device", "cuda", "--model", "m.safetensors", "--log",
                  "m.jsonl", environment=card)
        start = events(self.path("m.jsonl"))[0]
        self.assertEqual((start["device"]["kind"], start["device"]["number"]), ("cuda", 0))
        self.assertTrue(start["device"]["name"])
        self.refused_replay("that run was on a GPU")
        for epochs, device, there in ((2, (), True), (3, ("--device", "cpu"), False), (4, ("--device", "cuda"), True)):
            self.fine("train", "good.txt", *blocks, "--epochs", epochs, "--resume", *device, environment=card)
            last = [event for event in events(self.path("m.jsonl")) if event["event"] == "resume"][-1]
            self.assertEqual("device" in last, there, device)
            self.refused_replay("that run was on a GPU")

    def test_replay_is_on_the_cpu(self):
        self.fine("train", "good.txt", *QUICK, "--model", "m.safetensors", "--log", "m.jsonl")
        self.refused_replay("--device cuda: --replay repeats a run bit for bit", "--device", "cuda")
        self.fine("train", "good.txt", "--replay", "m.jsonl", "--device", "cpu", "--model", "again.safetensors")


class GpuFolder(ProgramTest):
    """The script that runs build/gpu on another machine, with stand-ins for the program and the parts."""

    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(ROOT, "tests", "gpu", "run"), self.folder)
        os.mkdir(self.path("parts"))
        self.program("exit 0")

    def program(self, of_training):
        self.write("truemax", f'#!/bin/bash\n[ "$1" = train ] || {{ echo truemax 0; exit 0; }}\n{of_training}\n')
        os.chmod(self.path("truemax"), 0o755)

    def part(self, name, text):
        self.write(os.path.join("parts", name), text)

    def run_it(self, *words):
        done = subprocess.run(["bash", self.path("run"), *words], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.splitlines()[-1], done.stdout

    def test_all_parts_pass_or_are_skipped(self):
        self.part("10-a.sh", "truemax --version")
        self.part("20-b.py", "import os, sys\nprint('no tool')\nsys.exit(77 if os.environ['HERE'] else 1)\n")
        code, last, said = self.run_it()
        self.assertEqual((code, last), (0, "gpu: passed (1 parts, 1 skipped)"), said)
        self.assertIn("no tool\n-- 20-b.py: skipped", said)

    def test_a_part_that_fails_is_named(self):
        self.part("10-a.sh", "exit 0")
        self.part("20-b.sh", "exit 3")
        code, last, said = self.run_it()
        self.assertEqual((code, last), (1, "gpu: FAILED: 20-b.sh (1 passed, 0 skipped)"), said)
        self.assertEqual(self.run_it("10")[:2], (0, "gpu: passed (1 parts, 0 skipped)"))

    def test_skipped_without_a_gpu(self):
        self.part("10-a.sh", "exit 3")
        for why in ("the driver finds no GPU", "there is no NVIDIA driver, or one that is too old"):
            self.program(f'echo "truemax: error: --device cuda: {why}" >&2; exit 2')
            code, last, said = self.run_it()
            self.assertEqual((code, last), (0, "gpu: skipped"))
            self.assertIn(why, said)

    def test_other_failures_are_failures(self):
        self.program('echo "truemax: error: --device cuda: the library is of another version" >&2; exit 2')
        code, last, _ = self.run_it()
        self.assertEqual((code, last), (1, "gpu: FAILED: a run of three rows"))


class Dev(ProgramTest):
    """./dev gpu, where nothing is built."""

    def dev(self, *words):
        shutil.copy(os.path.join(ROOT, "dev"), self.folder)
        return subprocess.run([self.path("dev"), *words], capture_output=True, text=True, timeout=60)

    def test_run_needs_build(self):
        said = self.dev("gpu", "run")
        self.assertEqual((said.returncode, said.stderr), (1, "dev: there is no build/gpu; run ./dev gpu build first\n"))

    def test_says_what_it_takes(self):
        for words in ((), ("walk",)):
            said = self.dev("gpu", *words)
            self.assertEqual((said.returncode, said.stderr),
                             (2, "usage: ./dev gpu build | ./dev gpu run [PART...]\n"))


if __name__ == "__main__":
    unittest.main()
