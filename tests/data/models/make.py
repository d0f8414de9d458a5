#!/usr/bin/python3
"""Makes a folder of small models with one version of truemax, and what that version said about them.

    tests/data/models/make.py PROGRAM FOLDER COMMIT

Kinds of models that the program does not know are left out. README.md says when to run it.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# kind: (data file, options of training, options of reading)
KINDS = {
    "linear": ("rows.txt", ["--method", "implicit", "--step", "1", "--epochs", "5"], []),
    "intercept": ("rows.txt", ["--method", "umax", "--step", "0.5", "--epochs", "5", "--intercept", "--normalize", "l2"], []),
    "all-labels": ("rows.txt", ["--method", "implicit", "--step", "1", "--epochs", "5", "--labels", "all"], []),
    "hashed": ("rows.txt", ["--method", "implicit", "--step", "1", "--epochs", "5", "--hash-features", "8"], []),
    "words": ("words.txt", ["--method", "implicit", "--step", "1", "--epochs", "5"], []),
    "hashed-words": ("words.txt", ["--method", "implicit", "--step", "1", "--epochs", "5", "--hash-features", "8"], []),
    "ngrams": ("words.txt", ["--method", "implicit", "--step", "1", "--epochs", "5", "--word-ngrams", "2"], []),
    "bag": ("rows.txt", ["--hidden", "4", "--step", "0.05", "--epochs", "5", "--method", "scent", "--rows-per-step", "2",
                         "--classes-per-step", "2"], []),
    **{encoder: ("text.txt", ["--encoder", encoder, "--hidden", "4", "--context", "2", "--step", "0.05", "--epochs", "3",
                              "--method", "scent", "--rows-per-step", "4", "--classes-per-step", "4"], ["--format", "text"])
       for encoder in ("context", "cbow", "skipgram")},
    "layer": ("text.txt", ["--hidden", "4", "--context", "2", "--layers", "1", "--step", "0.05", "--epochs", "3", "--method",
                           "scent", "--rows-per-step", "4", "--classes-per-step", "4"], ["--format", "text"]),
    "triples": ("triples.txt", ["--hidden", "4", "--step", "0.05", "--epochs", "3", "--method", "scent", "--rows-per-step",
                                "4", "--classes-per-step", "4"], ["--format", "triples"]),
}
TOP = 3


def run(program, *words):
    return subprocess.run([program, *words], cwd=HERE, capture_output=True, text=True, check=False)


def log_loss(program, model, data, reading):
    return json.loads(run(program, "evaluate", model, data, *reading, "--json").stdout)["log_loss"]


def predictions(program, model, data, reading):
    """By row: (class, probability) of the best classes; None if this kind of model has no prediction."""
    result = run(program, "predict", model, data, *reading, "--top", str(TOP), "--json")
    if result.returncode != 0:
        return None
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [list(zip(row["classes"], row["probabilities"])) for row in rows]


def main(program, folder, commit):
    program = os.path.abspath(program)
    at = os.path.join(HERE, folder)
    os.makedirs(at, exist_ok=True)
    made = {}
    for kind, (data, training, reading) in KINDS.items():
        model = os.path.join(folder, kind + ".safetensors")
        log = os.path.join(folder, kind + ".jsonl") if kind == "linear" else "none"
        if os.path.exists(os.path.join(HERE, model)):
            os.remove(os.path.join(HERE, model))
        result = run(program, "train", data, *training, *reading, "--model", model, "--log", log)
        if result.returncode != 0:
            print(f"{kind}: left out: {result.stderr.strip().splitlines()[-1]}")
            continue
        made[kind] = {"data": data, "training": training, "reading": reading,
                      "log_loss": log_loss(program, model, data, reading),
                      "predictions": predictions(program, model, data, reading)}
    with open(os.path.join(HERE, folder, "linear.safetensors"), "rb") as file:
        raw = file.read()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    version = json.loads(header["__metadata__"]["truemax"])["format_version"]
    with open(os.path.join(at, "expected.json"), "w", encoding="utf-8") as file:
        models = ",\n".join(f"{json.dumps(kind)}: {json.dumps(about)}" for kind, about in made.items())
        file.write(f'{{"format_version": {version}, "commit": "{commit}", "models": {{\n{models}\n}}}}\n')
    print(f"{folder}: {', '.join(made)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
