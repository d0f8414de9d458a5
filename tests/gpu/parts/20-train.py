"""Whole runs on the card beside the CPU: the same options must reach nearly the same loss, whatever the seed."""
import json
import os
import subprocess
import sys


def truemax(*words):
    return subprocess.run([os.environ["TRUEMAX"], *map(str, words)], check=True, capture_output=True, text=True).stdout


def loss(device, *options, seed=1):
    """Log-loss on the test rows, computed on the CPU; and that computed on the card."""
    truemax("train", "train.txt", "--seed", seed, "--device", device, "--model", "m.safetensors", "--log", "m.jsonl",
            "--no-eval-train", "--test", "test.txt", "--quiet", *options)
    with open("m.jsonl", encoding="utf-8") as file:
        start = json.loads(file.readline())
    if ("device" in start) != (device != "cpu"):
        sys.exit(f"the log of a run with --device {device} says {start.get('device')}")
    on = [json.loads(truemax("evaluate", "m.safetensors", "test.txt", "--json", "--device", where))["log_loss"]
          for where in ("cpu", device)]
    os.remove("m.safetensors")
    if abs(on[0] - on[1]) > 1e-5 * on[0]:
        sys.exit(f"evaluation: {on[0]} on the CPU, {on[1]} on {device}")
    return on[0]


truemax("generate", "train.txt", "--rows", 20000, "--features", 3000, "--classes", 2000, "--nonzeros", 15, "--skew", 1,
        "--separability", 0.8, "--seed", 1, "--test", "test.txt", "--test-rows", 2000)
failed = False
for options in (("--method", "prox", "--draw", "blocks", "--classes-per-step", 16, "--epochs", 5),
                ("--method", "prox", "--draw", "head-blocks", "--head", 4, "--classes-per-step", 16, "--epochs", 5),
                ("--method", "prox", "--draw", "head-blocks", "--head", 2, "--classes-per-step", 16, "--epochs", 5,
                 "--ridge", 5, "--intercept"),
                ("--method", "implicit", "--draw", "blocks", "--classes-per-step", 16, "--epochs", 5)):
    here = [loss("cpu", *options, seed=seed) for seed in (1, 2, 3)]
    there = [loss("cuda", *options, seed=seed) for seed in (1, 2)]
    middle, spread = sum(here) / 3, max(here) - min(here)
    far = max(abs(x - middle) for x in there)
    good = far <= 2 * spread + 0.01 * middle
    failed |= not good
    print(f"{'ok ' if good else 'BAD'} {' '.join(map(str, options))}: cpu {middle:.4f} +- {spread:.4f}, "
          f"cuda {', '.join(f'{x:.4f}' for x in there)}")
sys.exit(1 if failed else 0)
