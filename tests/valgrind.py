#!/usr/bin/python3
"""./dev valgrind: the program under memcheck, on tiny data: every method, draws, encoders, evaluation, prediction,
checkpoints, damaged models. Any invalid access, use of uninitialised memory or lost block fails. Under five minutes.

Valgrind knows instructions up to AVX2, so Highway takes those kernels; the sanitizers run the others.
"""
import os
import subprocess
import sys
import tempfile

import support

MEMCHECK = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite"]


def commands(folder):
    """(words of the command, exit code)."""
    def train(data, *options, code=0, name="m"):
        return ["train", data, *options, "--quiet", "--threads", "2", "--model", f"{name}.safetensors", "--log", "none"], code
    yield ["generate", "train.txt", "--rows", "60", "--features", "30", "--classes", "40", "--nonzeros", "4", "--test",
           "test.txt", "--test-rows", "20"], 0
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as file:
        file.write("the cat sat on the mat and the dog sat on the cat\n" * 5)
    with open(os.path.join(folder, "triples.txt"), "w", encoding="utf-8") as file:
        file.write("".join(f"e{i % 7}\tr{i % 2}\te{(i * 3) % 7}\n" for i in range(30)))
    with open(os.path.join(folder, "words.txt"), "w", encoding="utf-8") as file:
        file.write("__label__a red green\n__label__b blue green red\n" * 10)
    short = ("--epochs", "2", "--step", "0.01")
    for number, method in enumerate(("implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove",
                                     "nce", "importance", "softplus", "exact", "adam", "lbfgs")):
        draw = ("uniform", "blocks", "frequency", "active", "head-blocks", "uniform-skip", "all")[number % 7]
        yield train("train.txt", "--method", method, "--draw", draw, *short,
                    *(("--ridge", "0.1", "--intercept") if number % 2 else ()))
    yield train("train.txt", "--method", "prox", "--newton", "5", *short)
    learnt = ("--method", "scent", "--hidden", "6", "--rows-per-step", "8", "--classes-per-step", "4", *short)
    yield train("train.txt", *learnt, "--dropout", "0.2", name="bag")
    for encoder in ("context", "cbow", "skipgram"):
        yield train("text.txt", *learnt, "--format", "text", "--encoder", encoder, name="text")
    yield train("triples.txt", *learnt, "--format", "triples", name="triples")
    yield train("words.txt", "--method", "prox", *short, "--word-ngrams", "2", name="words")
    saved = ("--method", "umax", *short, "--checkpoint", "run.ckpt", "--checkpoint-every", "1epochs")
    yield train("train.txt", *saved, name="saved")
    yield train("train.txt", *saved, "--resume", name="saved")
    yield train("train.txt", *saved, name="saved", code=2)
    yield ["evaluate", "m.safetensors", "test.txt"], 0
    yield ["evaluate", "bag.safetensors", "test.txt"], 0
    yield ["predict", "m.safetensors", "test.txt", "--top", "5"], 0
    yield ["predict", "words.safetensors", "words.txt"], 0
    yield ["evaluate", "triples.safetensors", "triples.txt", "--format", "triples"], 0
    yield ["inspect", "m.safetensors"], 0
    with open(os.path.join(folder, "m.safetensors"), "rb") as file:
        whole = file.read()
    with open(os.path.join(folder, "cut.safetensors"), "wb") as file:
        file.write(whole[:len(whole) // 2])
    yield ["evaluate", "cut.safetensors", "test.txt"], 2
    yield ["train", "cut.safetensors", "--quiet"], 2


def main():
    failures = count = 0
    with tempfile.TemporaryDirectory(prefix="truemax-valgrind-") as folder:
        for words, code in commands(folder):
            done = subprocess.run([*MEMCHECK, support.PROGRAM, *words], cwd=folder, capture_output=True, text=True,
                                  check=False, errors="replace")
            count += 1
            if done.returncode == code and "==" not in done.stderr:
                continue
            failures += 1
            print(f"FAILED: truemax {' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}", flush=True)
    print(f"valgrind: {count} commands, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
