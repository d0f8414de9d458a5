"""Two ranks of truemax-mpi on two cores beside two threads of truemax: seconds to the same train log-loss.

    python3 bench/two_ranks.py [yso-finna-en/train.txt.gz] [--rows 100000] [--epochs 20] [--repeats 5] [--first]

Both take the same steps. Runs alternate, because the machine may be busy with other things; the best of each counts, and
the ratio of neighbours is printed too. Time is training time, without evaluations. The first epoch touches the memory of
W for the first time, which takes the system a time of its own: --after 1 leaves it out for both.
--first: run before other programs (nice -20; needs root).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))


def curve(log):
    """[(seconds, train log-loss)], from the start on."""
    with open(log, encoding="utf-8") as file:
        return [(e["train_seconds"], e["train"]["log_loss"]) for e in map(json.loads, file) if e["event"] == "evaluate"]


def seconds_to(target, points, after):
    """Between evaluations: along a line."""
    begin = points[after - 1][0] if after else 0.0
    for (t0, l0), (t1, l1) in zip(points, points[1:]):
        if l1 <= target:
            return t0 + (t1 - t0) * max(0.0, (l0 - target) / (l0 - l1)) - begin
    return float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.path.join(DATA, "yso-finna-en", "train.txt.gz"))
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--step", type=float, default=10)
    parser.add_argument("--after", type=int, default=0, help="epochs before the clock starts")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--options", default="--draw blocks --classes-per-step 16", help="more options of both")
    options = parser.parse_args()
    first = ["nice", "-n", "-20"] if options.first else []
    mpirun = ["mpirun", "--bind-to", "core", "-n", "2"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "data.cache")
        program = os.path.join(options.build, "truemax")
        subprocess.run([program, "convert", options.data, cache, "--max-rows", str(options.rows), "--quiet"], check=True)
        common = ["train", cache, "--method", "prox", "--step", str(options.step), *options.options.split(), "--eval-every",
                  "1", "--eval", "sampled", "--eval-rows", "10000", "--model", "none", "--quiet"]

        def run(*command):
            log = os.path.join(folder, "log.jsonl")
            subprocess.run([*command, "--log", log], check=True, cwd=folder)
            return curve(log)

        def threads():
            return run(*first, program, *common, "--threads", "2", "--epochs", str(options.epochs))

        def ranks():
            return run(*mpirun, *first, f"{program}-mpi", *common, "--threads", "1", "--epochs", str(options.epochs + 2))

        best, ratios = [float("inf")] * 2, []
        for i in range(options.repeats):
            a = threads()
            target = a[-1][1]
            times = [seconds_to(target, a, options.after), seconds_to(target, ranks(), options.after)]
            best = [min(b, t) for b, t in zip(best, times)]
            ratios.append(times[1] / times[0])
            print(f"{i + 1}  train log-loss {target:.4f}: two threads {times[0]:.3f} s, two ranks {times[1]:.3f} s, "
                  f"ratio {ratios[-1]:.2f}", flush=True)
        print(f"best: two threads {best[0]:.3f} s, two ranks {best[1]:.3f} s, ratio {best[1] / best[0]:.2f}; "
              f"median ratio {statistics.median(ratios):.2f} (at most 1.3)")
    return 0 if best[1] / best[0] <= 1.3 else 1


if __name__ == "__main__":
    sys.exit(main())
