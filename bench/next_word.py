#!/usr/bin/python3
"""The next word of plain text: test perplexity of truemax, and its time beside exact softmax in PyTorch.

    bench/next_word.py PROGRAM --data FOLDER [--peer] [--steps 20]

PROGRAM is truemax, FOLDER has wikitext2/wiki.{train,valid,test}.tokens.gz. The first table has the plain command and
commands with layers and tying given; validation rows are the set's own. With --peer the second table has the time of
an epoch of PyTorch (exact softmax, Adam, same shape and rows a step), extrapolated from a few steps, and of truemax in
the same minute. Figures that cannot be measured here are skipped, and the table says so.
"""
import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time

KINDS = {
    "plain": [],
    "log-bilinear, separate vectors": ["--layers", "0", "--no-tied"],
    "tanh layer, separate vectors": ["--layers", "1", "--no-tied"],
    "tanh layer, tied vectors": ["--layers", "1", "--tied"],
}


def train(program, files, more):
    """The events of the log and the seconds of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.jsonl")
        start = time.monotonic()
        done = subprocess.run([program, "train", files["train"], "--format", "text", "--test", files["test"],
                               "--no-eval-train", "--model", "none", "--log", log, *more],
                              capture_output=True, text=True, check=False)
        whole = time.monotonic() - start
        if done.returncode != 0:
            sys.exit(f"{program} train {' '.join(more)}: {done.stderr.strip()}")
        with open(log, encoding="utf-8") as file:
            return [json.loads(line) for line in file], whole


def quality(program, files):
    print("| command | layers | tied | dropout | ridge | step | epochs | test log-loss | perplexity | seconds | command |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, more in KINDS.items():
        events, whole = train(program, files, ["--valid", files["valid"], *more])
        chosen = [e for e in events if e["event"] == "chosen"][-1]["config"]
        loss = [e for e in events if e["event"] == "evaluate"][-1]["test"]["log_loss"]
        print(f"| {name} | {chosen['layers']} | {chosen['tied']} | {chosen['dropout']:g} | {chosen['ridge']:.3g} | "
              f"{chosen['step']:.3g} | {chosen['epochs']} | {loss:.3f} | {math.exp(loss):.1f} | "
              f"{events[-1]['train_seconds']:.0f} | {whole:.0f} |", flush=True)


def words(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [word for line in file for word in line.split() + ["<eos>"]]


def peer_step_seconds(text, kinds, layers, steps, rows=1024, hidden=256, context=8):
    """Seconds of a step of exact softmax with Adam, the best of `steps` after two to warm up."""
    import torch
    from torch import nn
    torch.manual_seed(1)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    embedding, output = nn.Embedding(kinds, hidden), nn.Linear(hidden, kinds)
    mixing = nn.Linear(context * hidden, hidden) if layers else nn.Parameter(torch.ones(context, hidden))
    parameters = [*embedding.parameters(), *output.parameters(), *(mixing.parameters() if layers else [mixing])]
    adam = torch.optim.Adam(parameters, lr=0.002)
    best = math.inf
    for step in range(steps + 2):
        at = torch.randint(context, len(text), (rows,))
        start = time.monotonic()
        e = embedding(text[at[:, None] - 1 - torch.arange(context)[None]])
        x = torch.tanh(mixing(e.flatten(1))) if layers else (e * mixing).sum(1)
        loss = nn.functional.cross_entropy(output(nn.functional.dropout(x, 0.2)), text[at])
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step >= 2:
            best = min(best, time.monotonic() - start)
    return best


OUR_STEPS = 300  # of an epoch's 2,040


def beside_peer(program, files, steps):
    try:
        import torch
    except ImportError:
        print("\nskipped: PyTorch is not installed (Debian: apt-get install python3-torch)")
        return
    text = words(files["train"])
    number = {word: i for i, word in enumerate(sorted(set(text)))}
    ids = torch.tensor([number[word] for word in text])
    print("\n| model | truemax, seconds an epoch | PyTorch, seconds an epoch | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name, layers in (("log-bilinear", 0), ("tanh layer", 1)):
        ours, theirs = math.inf, math.inf
        for _ in range(2):  # in turn, the best of each
            events, _ = train(program, files, ["--layers", str(layers), "--no-tied", "--dropout", "0.2", "--step", "0.002",
                                               "--ridge", "100", "--steps", str(OUR_STEPS), "--eval", "sampled", "--eval-rows", "1000"])
            ours = min(ours, events[-1]["train_seconds"] * len(text) / 1024 / OUR_STEPS)
            theirs = min(theirs, peer_step_seconds(ids, len(number), layers, steps) * len(text) / 1024)
        print(f"| {name} | {ours:.1f} | {theirs:.0f} | {theirs / ours:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer", action="store_true", help="time PyTorch beside truemax")
    parser.add_argument("--only-peer", action="store_true", help="leave the first table out")
    parser.add_argument("--steps", type=int, default=5, help="steps of PyTorch that are timed (default 5)")
    options = parser.parse_args()
    files = {part: os.path.join(options.data, "wikitext2", f"wiki.{part}.tokens.gz") for part in ("train", "valid", "test")}
    if not os.path.exists(files["train"]):
        print(f"skipped: no {files['train']}")
        return
    if not options.only_peer:
        quality(options.program, files)
    if options.peer or options.only_peer:
        beside_peer(options.program, files, options.steps)


if __name__ == "__main__":
    main()
