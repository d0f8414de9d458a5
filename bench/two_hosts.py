"""Two hosts on this machine, joined by a slow link: rows per second and bytes per row against the cost model.

    python3 bench/two_hosts.py [--groups 64,256,1024,4096] [--method prox] [--latency 50] [--gigabits 10] [--first]

The hosts are network namespaces. The link is a veth pair with `tc netem`, or, where the kernel has no netem, two TUN
devices and truemax-link between them. Open MPI runs over TCP, started through `ip netns exec` instead of ssh. Nothing
leaves the namespaces, and they are removed at the end. Needs root, Open MPI and iproute2; says what is missing.

The model (bench/machines.py) gets the work of a row from runs on one rank with several numbers of blocks, two at a time,
because the two hosts share this machine too; the messages of a group from the same runs, which count them; and the
times of a message over the link from truemax-exchange. Nothing is fitted to the runs over two hosts.

--first: ranks run before other programs (nice -20), for a machine that does other things too. Not SCHED_FIFO: ranks
that wait do not sleep, and mpirun would never run.
"""
import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import machines

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NETWORK, ADDRESS = "10.77.0.0/24", ("10.77.0.1", "10.77.0.2")
BLOCKS = 16  # drawn per row
LIMIT = 300  # seconds of a command


class Skipped(Exception):
    pass


def call(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT, **more).stdout


def can_make_namespaces():
    """Why not, or nothing."""
    if os.geteuid() != 0:
        return "namespaces need root"
    for tool in ("ip", "mpirun", "unshare", "taskset"):
        if shutil.which(tool) is None:
            return f"no {tool} here"
    name = f"tm-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"cannot make network namespaces: {made.stderr.strip()}"
    call("ip", "netns", "del", name)
    return ""


class Hosts:
    """Two namespaces and their link, while it is open."""

    def __init__(self, build, folder, latency, gigabits, first):
        self.names = [f"tm-{os.getpid()}-{i}" for i in (0, 1)]
        self.build, self.folder, self.latency, self.gigabits = build, folder, latency, gigabits
        self.first, self.relay = first, None

    def __enter__(self):
        try:
            for name in self.names:
                call("ip", "netns", "add", name)
                call("ip", "-n", name, "link", "set", "lo", "up")
            self.kind = self.make_veth() or self.make_tun()
            for name, address in zip(self.names, ADDRESS):
                call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "link0")
                call("ip", "-n", name, "link", "set", "link0", "mtu", "9000", "up")
            self.write_scripts()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def make_veth(self):
        call("ip", "link", "add", "link0", "netns", self.names[0], "type", "veth", "peer", "name", "link0", "netns",
             self.names[1])
        for name in self.names:
            shaped = subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "link0", "root", "netem",
                                     "delay", f"{self.latency}us", "rate", f"{self.gigabits}gbit", "limit", "100000"],
                                    capture_output=True)
            if shaped.returncode != 0:
                call("ip", "-n", self.names[0], "link", "del", "link0")
                return None
        return "veth and tc netem"

    def make_tun(self):
        self.relay = subprocess.Popen([os.path.join(self.build, "truemax-link"), *self.names, "link0",
                                       str(self.latency), str(self.gigabits)], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        if self.relay.stdout.readline().strip() != "ready":
            raise Skipped(f"no netem in this kernel, and {self.relay.stderr.read().strip()}")
        return "TUN devices and truemax-link, as this kernel has no netem"

    def write_scripts(self):
        """The agent that mpirun starts its daemon of a host with, and what puts each rank on a core of its own."""
        self.agent, self.pin, self.list = (os.path.join(self.folder, n) for n in ("agent", "pin", "hosts"))
        inside = "".join(f"{a}) host={n};; " for a, n in zip(ADDRESS, self.names))
        first = "nice -n -20 " if self.first else ""
        with open(self.agent, "w") as file:
            file.write(f'#!/bin/sh\ncase $1 in {inside}*) echo "no host $1" >&2; exit 1;; esac\nshift\n'
                       'exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"\n')
        with open(self.pin, "w") as file:
            file.write("#!/bin/sh\n"
                       f'exec {first}taskset -c $((OMPI_COMM_WORLD_RANK % {os.cpu_count()})) "$@"\n')
        for path in (self.agent, self.pin):
            os.chmod(path, 0o755)
        with open(self.list, "w") as file:
            file.write("".join(f"{a} slots=1\n" for a in ADDRESS))

    def mpirun(self, *command):
        words = ["mpirun", "--allow-run-as-root", "--hostfile", self.list, "--map-by", "node", "--bind-to", "none", "-n",
                 "2", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca",
                 "btl_tcp_if_include", NETWORK, "--mca", "oob_tcp_if_include", NETWORK, self.pin, *command]
        return call("ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                    f"hostname {self.names[0]}; exec {shlex.join(words)}", cwd=self.folder)

    def bytes_on_link(self):
        return int(call("ip", "netns", "exec", self.names[0], "cat", "/sys/class/net/link0/statistics/tx_bytes"))


def events(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def seconds_per_row(log):
    """Of the quickest epoch after the first, in which W is touched for the first time."""
    run = events(log)
    at = [(e["epoch"], e["train_seconds"]) for e in run if e["event"] == "evaluate" and e["epoch"] > 0]
    rows = run[0]["data"]["examples"]
    return min((b[1] - a[1]) / (rows * (b[0] - a[0])) for a, b in zip(at, at[1:]))


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = os.path.join(options.build, "truemax-mpi")
        self.data = os.path.join(folder, "train.txt")
        call(os.path.join(options.build, "truemax"), "generate", self.data, "--rows", str(options.rows), "--features",
             "10000", "--classes", str(options.classes), "--nonzeros", "20", "--skew", "1", "--seed", "1")

    def train(self, group, blocks, log):
        return [self.program, "train", self.data, "--method", self.options.method, "--step", "0.05", "--ridge", "0",
                "--epochs", str(self.options.epochs), "--group", str(group), "--draw", "blocks", "--classes-per-step",
                str(16 * blocks), "--eval-every", "1", "--eval", "sampled", "--eval-rows", "100", "--threads", "1", "--model", "none",
                "--quiet", "--log", log]

    def one_rank(self, group, blocks):
        """Two at a time, on a core each: (seconds per row, the messages that several ranks would send)."""
        logs = [os.path.join(self.folder, f"one{i}.jsonl") for i in (0, 1)]
        first = ["nice", "-n", "-20"] if self.options.first else []
        pair = [subprocess.Popen([*first, "taskset", "-c", str(i % os.cpu_count()), *self.train(group, blocks, log)],
                                 cwd=self.folder) for i, log in enumerate(logs)]
        if any([p.wait(LIMIT) for p in pair]):
            raise RuntimeError("a run on one rank failed")
        counted = events(logs[0])[-1]["ranks"]
        groups = counted["rows"] / group
        return (sum(map(seconds_per_row, logs)) / 2,
                machines.Messages(counted["reductions"] / groups, counted["combined_bytes"] / counted["rows"]))

    def two_ranks(self, hosts, group):
        log = os.path.join(self.folder, "two.jsonl")
        before = hosts.bytes_on_link()
        hosts.mpirun(*self.train(group, BLOCKS, log))
        counted = events(log)[-1]["ranks"]
        return (seconds_per_row(log), counted["sent_bytes"] / counted["rows"],
                (hosts.bytes_on_link() - before) / counted["rows"])


def measure_link(hosts):
    """Messages of up to 16 KB, as groups of up to 4,096 rows send them."""
    best = {}
    for _ in range(3):
        for line in hosts.mpirun(os.path.join(hosts.build, "truemax-exchange")).splitlines():
            m = json.loads(line)
            size = 4 * m["numbers"]
            best[size] = [min(pair) for pair in zip(m["rounds"], best.get(size, m["rounds"]))]
    return machines.Link([machines.line_through([(size, rounds[p]) for size, rounds in best.items()])
                          for p in range(machines.PARTS)])


def compare(options, folder):
    bench = Bench(options, folder)
    rows = []
    with Hosts(options.build, folder, options.latency, options.gigabits, options.first) as hosts:
        print(f"link: {options.latency:g} us, {options.gigabits:g} Gbit/s ({hosts.kind})")
        link = measure_link(hosts)
        print("a round of 1 to 4 messages: " +
              ", ".join(f"{base * 1e6:.0f} us + {byte * 1e9:.2f} ns per byte" for base, byte in link.rounds), flush=True)
        for group in options.groups:
            points = []
            for blocks in (BLOCKS // 4, BLOCKS // 2, BLOCKS):
                seconds, messages = min((bench.one_rank(group, blocks) for _ in range(options.repeats)),
                                        key=lambda r: r[0])
                points.append((blocks + 1, seconds))
            each, block = machines.line_through(points)
            work = machines.Work(each, block, BLOCKS + 1)
            predicted = group / machines.seconds_of_group(group, 2, work, messages, link)
            seconds, sent, on_link = min(bench.two_ranks(hosts, group) for _ in range(options.repeats))
            bytes_per_row = machines.sent_per_row(messages, 2)
            rows.append((group, messages, each, block, predicted, 1 / seconds, bytes_per_row, sent, on_link))
    print()
    print(machines.table(
        ["rows of a group", "reductions", "us of a row", "us of a block", "rows/s predicted", "measured", "ratio",
         "bytes/row predicted", "sent", "with headers"],
        [[g, f"{m.reductions:.1f}", f"{a * 1e6:.2f}", f"{b * 1e6:.3f}", f"{p:.0f}", f"{r:.0f}", f"{r / p:.2f}",
          f"{by:.1f}", f"{s:.1f}", f"{w:.0f}"] for g, m, a, b, p, r, by, s, w in rows]))
    worst = max(abs(r / p - 1) for _, _, _, _, p, r, *_ in rows)
    off = max(abs(s / by - 1) for *_, by, s, _ in rows)
    print(f"\nrows/s within {worst:.0%} of the model (at most 30%), bytes per row within {off:.1%}")
    return worst <= 0.3 and off <= 0.02


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default="64,256,1024,4096", type=lambda t: [int(g) for g in t.split(",")])
    parser.add_argument("--method", default="prox", choices=("prox", "scent", "umax"))
    parser.add_argument("--latency", type=float, default=50, help="microseconds")
    parser.add_argument("--gigabits", type=float, default=10)
    parser.add_argument("--classes", type=int, default=10000)
    parser.add_argument("--rows", type=int, default=40960, help="of the data, a multiple of each group")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--first", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the namespaces are removed
    options.build = os.path.abspath(options.build)
    why = can_make_namespaces()
    if not why:
        missing = [p for p in ("truemax", "truemax-mpi", "truemax-exchange")
                   if not os.path.exists(os.path.join(options.build, p))]
        if missing:
            why = f"no {', '.join(missing)} in {options.build}: ./dev mpi builds them"
    try:
        if why:
            raise Skipped(why)
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            good = compare(options, folder)
    except Skipped as skipped:
        print(f"skipped: {skipped}", file=sys.stderr)
        return 77
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(map(str, error.cmd))}\n{error.stdout}{error.stderr}", file=sys.stderr)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
