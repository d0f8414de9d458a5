#!/usr/bin/python3
"""./dev fuzz: runs libFuzzer on every target, or measures the lines that the seeds reach.

Found inputs stay in build/fuzz/corpus, and the next run starts from them. A crash, a timeout or too much memory ends the
target; its input stays in build/fuzz/crashes."""
import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build", "fuzz")
PROGRAM = os.path.join(BUILD, "truemax_fuzz")
SEEDS = os.path.join(HERE, "corpus")
FOUND = os.path.join(BUILD, "corpus")
MADE = os.path.join(BUILD, "seeds")  # good inputs whose layout belongs to the build
CRASHES = os.path.join(BUILD, "crashes")
TOTALS = os.path.join(BUILD, "executions.jsonl")

# What reads bytes of strangers.
READERS = ["src/data/" + name + ".cpp" for name in (
    "cache_block", "cache_file", "cache_format", "cache_source", "dense_header", "dense_labels", "dense_source",
    "fasttext_text", "formats", "input", "label_file", "load", "number", "preprocess", "raw_rows", "reading_memory",
    "row_stream", "sniff", "sparse_text", "split", "table_advice", "text_buckets", "text_lines", "text_ngrams",
    "text_piece", "text_set", "text_source", "triples", "triples_text", "weight_files")]
READERS += ["src/data/names.hpp", "src/data/number.hpp", "src/core/options.cpp", "src/core/state_stream.hpp",
            "src/model/bucket_steps.cpp", "src/model/model.cpp", "src/model/model_header.cpp", "src/model/safetensors.cpp",
            "src/model/tensor_rows.cpp", "src/train/replay.cpp", "src/train/run_state.cpp", "src/train/run_state_check.cpp",
            "src/train/checkpoint.cpp", "src/train/checkpoint_stream.cpp", "src/core/archive.hpp", "src/core/json_depth.hpp"]
LEAST_COVERAGE = 90

# The timeout is in wall-clock time: on a busy machine an input of `memory` took 20 s that takes 0.1 s alone.
# The entropic schedule counts the rare features of every input: libsvm 1,030 inputs/s with it and 1,550 without, model
# 810 and 1,570.
LIMITS = ["-max_len=8192", "-timeout=60", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-print_final_stats=1",
          "-use_value_profile=0", "-entropic=0", "-reload=1", "-verbosity=1"]


def target_names():
    result = subprocess.run([PROGRAM], capture_output=True, text=True, check=False, env={**os.environ, "TRUEMAX_FUZZ_TARGET": ""})
    return re.search(r"must be one of:(.*)", result.stderr)[1].split()


def environment(target):
    # A failed allocation must reach the program as std::bad_alloc, not end it: readers report it.
    return {**os.environ, "TRUEMAX_FUZZ_TARGET": target, "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1",
            "UBSAN_OPTIONS": "print_stacktrace=1"}


def write_seeds(names):
    """Good inputs of this build."""
    subprocess.run([PROGRAM], check=True, env={**environment(names[0]), "TRUEMAX_FUZZ_SEEDS": MADE})


class Job:
    """One process of libFuzzer."""

    def __init__(self, target, number, seconds, seed):
        self.target, self.number, self.seconds, self.seed = target, number, seconds, seed
        self.executions = self.new = 0
        self.crash = ""  # its file

    def folders(self):
        found = os.path.join(FOUND, self.target)
        os.makedirs(found, exist_ok=True)
        places = [found, os.path.join(SEEDS, self.target), os.path.join(MADE, self.target)]
        return [place for place in places if os.path.isdir(place)]

    def run(self):
        prefix = os.path.join(CRASHES, f"{self.target}-")
        command = [PROGRAM, *LIMITS, f"-max_total_time={self.seconds}", f"-seed={self.seed}", f"-artifact_prefix={prefix}"]
        words = os.path.join(HERE, "dictionaries", self.target + ".dict")
        if os.path.exists(words):
            command.append(f"-dict={words}")
        process = subprocess.run([*command, *self.folders()], capture_output=True, text=True, errors="replace", check=False,
                                 env=environment(self.target))
        stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", process.stderr))
        self.executions = int(stats.get("number_of_executed_units", 0))
        self.new = int(stats.get("new_units_added", 0))
        written = re.search(r"Test unit written to (\S+)", process.stderr)
        if process.returncode != 0:
            self.crash = written[1] if written else "(no input was kept)"
            with open(os.path.join(CRASHES, f"{self.target}-{self.number}.txt"), "w", encoding="utf-8") as file:
                file.write(process.stderr)
        return self


def fuzz(names, seconds, cores, seed):
    os.makedirs(CRASHES, exist_ok=True)
    write_seeds(names)
    shares = max(1, -(-cores // len(names)))  # processes per target, so that no core is idle
    each = max(1, int(seconds * cores / (len(names) * shares)))
    jobs = [Job(name, i, each, seed + i) for i in range(shares) for name in names]
    start = time.time()
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        done = list(pool.map(Job.run, jobs))
    return report(names, done, time.time() - start)


def report(names, jobs, seconds):
    executions, new, crashes = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for job in jobs:
        executions[job.target] += job.executions
        new[job.target] += job.new
        if job.crash:
            crashes[job.target].append(job.crash)
    print(f"{'target':<16}{'executions':>12}{'new':>8}{'crashes':>9}")
    for name in names:
        print(f"{name:<16}{executions[name]:>12,}{new[name]:>8,}{len(crashes[name]):>9}")
    total = sum(executions.values())
    with open(TOTALS, "a", encoding="utf-8") as file:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        file.write(json.dumps({"at": now, "seconds": round(seconds), "executions": dict(executions)}) + "\n")
    print(f"{'total':<16}{total:>12,}{sum(new.values()):>8,}{sum(map(len, crashes.values())):>9}   in {seconds:.0f} s; "
          f"{all_executions():,} in all runs of this build folder")
    for name, files in crashes.items():
        for file in files:
            print(f"reproduce: ./dev fuzz --replay {name} {os.path.relpath(file, ROOT)}")
    return 1 if any(crashes.values()) else 0


def all_executions():
    with open(TOTALS, encoding="utf-8") as file:
        return sum(sum(json.loads(line)["executions"].values()) for line in file)


def replay(target, path):
    return subprocess.run([PROGRAM, path], check=False, env=environment(target)).returncode


def coverage():
    """Replays the seeds in a build with counters, and prints the share of lines they reach. Inputs found by earlier runs
    are left out: the result is the same on every machine."""
    build = os.path.join(ROOT, "build", "fuzz-coverage")
    program, raw, merged = (os.path.join(build, name) for name in ("truemax_fuzz", "lines.profraw", "lines.profdata"))
    subprocess.run([program, "--corpus", SEEDS], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "LLVM_PROFILE_FILE": raw})
    subprocess.run(["llvm-profdata-14", "merge", "-o", merged, raw], check=True)
    result = subprocess.run(["llvm-cov-14", "export", "--summary-only", "--instr-profile", merged, program],
                            capture_output=True, text=True, check=True)
    # A compiler cache makes some paths relative to the build folder.
    found = {os.path.relpath(os.path.join(build, file["filename"]), ROOT): file["summary"]["lines"]
             for file in json.loads(result.stdout)["data"][0]["files"]}
    lines = covered = 0
    print(f"{'file':<34}{'lines':>7}{'reached':>9}{'share':>8}")
    for name in sorted(READERS):
        count = found[name]
        lines, covered = lines + count["count"], covered + count["covered"]
        print(f"{name:<34}{count['count']:>7}{count['covered']:>9}{count['percent']:>7.1f}%")
    share = 100 * covered / lines
    print(f"{'readers and loaders':<34}{lines:>7}{covered:>9}{share:>7.1f}%   (at least {LEAST_COVERAGE}% wanted)")
    return 0 if share >= LEAST_COVERAGE else 1


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of the whole run, on all cores (default 600)")
    parser.add_argument("--targets", nargs="+", metavar="TARGET", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time (default: all cores)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0: another one each time")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="run one input and show what happens")
    parser.add_argument("--coverage", action="store_true", help="lines of readers and loaders that the seeds reach")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    options = parser.parse_args()
    if options.coverage:
        return coverage()
    if options.replay:
        return replay(*options.replay)
    known = target_names()
    unknown = set(options.targets or []) - set(known)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.list:
        print("\n".join(known))
        return 0
    seed = options.seed or int(time.time())
    return fuzz(options.targets or known, options.seconds, options.jobs, seed)


if __name__ == "__main__":
    sys.exit(main())
