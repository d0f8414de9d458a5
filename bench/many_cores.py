"""Training on many cores: times of one thread over those of several, in order and lock-free.

    python3 bench/many_cores.py yso-finna-en/train.txt.gz --program build/release/truemax [--threads 1,2,4,8,16]

Runs of the same steps, interleaved, best of several: blocks, a head, a ridge, implicit and learnt features. In order,
models must be the same bit for bit; lock-free, the mean log-loss of five seeds must be no worse than the worst of them
in order. With a head, steps in order are taken in groups, whose log-loss is compared like that, too; their times are
compared with one thread without groups.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

from tables import show

DATA = ["--max-rows", "100000", "--max-features", "10000", "--normalize", "l2"]
LINEAR = ["--visit", "shuffle", "--schedule", "linear", "--epochs", "20", "--classes-per-step", "16"]
BLOCKS = ["--method", "prox", "--draw", "blocks", "--step", "5", *LINEAR]
HEAD = ["--method", "prox", "--draw", "head-blocks", "--head", "16", "--step", "5", *LINEAR]
RIDGE = ["--ridge", "0.1"]
KINDS = {
    "prox, blocks": BLOCKS,
    "prox, head of 16": HEAD,
    "prox, blocks, ridge": [*BLOCKS, *RIDGE],
    "prox, head of 16, ridge": [*HEAD, *RIDGE, "--intercept"],
    "implicit, blocks": ["--method", "implicit", "--draw", "blocks", "--step", "5", *LINEAR],
    "learnt, h = 128": ["--hidden", "128", "--step", "0.004", "--ridge", "1", "--epochs", "2"],
    "learnt, h = 128, long": ["--hidden", "128", "--step", "0.004", "--ridge", "1", "--epochs", "8"],
}
LOCK_FREE, IN_ORDER = 8, 6  # times one thread, on 16 cores
SEEDS = (1, 2, 3, 4, 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("--program", default="build/release/truemax")
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="", help="only those whose names contain this")
    parser.add_argument("--group", type=int, default=1024, help="rows of a group, with a head in order")
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    threads = sorted({1, *(t for t in map(int, options.threads.split(",")) if t <= cores)})
    folder = tempfile.TemporaryDirectory()
    model = os.path.join(folder.name, "model.safetensors")
    ways = {"in order": [], "in groups": ["--group", str(options.group)], "lock-free": ["--lock-free"]}

    def run(kind, count, way, seed=1, keep=False):
        done = subprocess.run([options.program, "train", options.file, *DATA, *KINDS[kind], *ways[way], "--threads",
                               str(count), "--seed", str(seed), "--device", "cpu", "--model", model if keep else "none",
                               "--log", "none", "--quiet", "--json"],
                              check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{kind}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        bits = None
        if keep:
            digest = hashlib.sha256()
            with open(model, "rb") as file:  # the header has options, the rest is W
                header = int.from_bytes(file.read(8), "little")
                file.seek(8 + header)
                while piece := file.read(1 << 24):
                    digest.update(piece)
            bits = digest.hexdigest()
        return said["train_seconds"], said["train"]["log_loss"], bits

    rows, wrong = [], []
    for kind, of_kind in KINDS.items():
        if options.kinds not in kind:
            continue
        ordered = "in groups" if "--head" in of_kind else "in order"
        one_bits = run(kind, 1, ordered, keep=True)[2]
        most = max(threads)
        if run(kind, most, ordered, keep=True)[2] != one_bits:
            wrong.append(f"{kind}: {most} threads {ordered} have other bits than one")
        # Steps in order have the same bits on all cores, which then evaluate faster.
        losses = [run(kind, most, "in order", seed)[1] for seed in SEEDS]
        # One thread takes its steps in order: that is what several are compared with.
        ways_of_kind = (ordered, "lock-free")
        runs = [(count, way) for count in threads for way in (ways_of_kind if count > 1 else ("in order",))]
        best, loss = {}, {}
        for _ in range(options.rounds):
            for one in runs:
                seconds, loss[one], _ = run(kind, *one)
                best[one] = min(seconds, best.get(one, seconds))
        for way in ways_of_kind:
            of_way = [(count, way if count > 1 else "in order") for count in threads]
            ratio = best[of_way[0]] / best[of_way[-1]]
            rows.append((kind, way, *(f"{best[one]:.3f}" for one in of_way), f"{ratio:.1f}",
                         f"{loss[of_way[-1]]:.4f}", f"{losses[0]:.4f}"))
            if way != "in order":  # those are the same runs
                mean = sum(run(kind, most, way, seed)[1] for seed in SEEDS) / len(SEEDS)
                if mean > max(losses):
                    wrong.append(f"{kind}: {way} log-loss {mean:.5f}, seeds {min(losses):.5f} to {max(losses):.5f}")
            aim = LOCK_FREE if way == "lock-free" else IN_ORDER
            if most == 16 and ratio < aim:
                wrong.append(f"{kind}: {ratio:.1f} times on 16 cores {way}, aim {aim}")
            show("", ("", "", *(f"{c} threads, s" for c in threads), "times", "log-loss", "in order"), rows[-1:])
            sys.stdout.flush()
    show(f"Training on {cores} cores, best of {options.rounds}",
         ("", "", *(f"{c} threads, s" for c in threads), "times", "log-loss", "in order"), rows)
    for line in wrong:
        print(f"missed: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
