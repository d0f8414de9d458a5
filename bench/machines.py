"""The cost model of a run over ranks (truemax-mpi), and what it predicts for many machines.

    python3 bench/machines.py [--latency 10] [--gigabits 100] [--group 1024] ...

A group of n rows costs a rank

    n (a + b blocks / P) + rounds x exchange(bytes)

  a         seconds of a row that every rank spends: its draws, its row state, the search of its root
  b         seconds of a block of 16 classes of a row: `lines` cache lines are read to score it and again to update it,
            one for each non-zero feature
  blocks    of a row on all ranks: its label's and those that are drawn
  rounds    all-reduces that wait for each other: label scores, start of the root, its Newton steps, the label's
            coefficient. A group has up to 4 parts whose messages are under way together.
  exchange  of one round, a message of each part: the longer of the latency and the work for these messages. Ranks
            exchange in pairs, 1, 2, 4, ... apart: log2(P) exchanges, of which only the first ones of the parts are under
            way together.

bench/two_hosts.py measures a, b and the messages on this machine and checks the sum against runs over a slow link.
"""
import argparse
import math
import textwrap
from dataclasses import dataclass

PARTS, FEWEST_ROWS = 4, 128  # train/group_lane.hpp: parts of a group, and rows of a part
LINE = 64
BLOCK = 16


@dataclass
class Work:
    """Of one row on one rank of a run."""
    each: float  # seconds, whatever the rank has of W
    block: float  # seconds of a block of the row that the rank has
    blocks: float  # of a row, on all ranks

    def seconds(self, rows, ranks):
        return rows * (self.each + self.block * self.blocks / ranks)


@dataclass
class Messages:
    """What a group sends, as a run on one rank counts it."""
    reductions: float  # per group, of all parts
    combined: float  # bytes per row


@dataclass
class Link:
    """Seconds of a round of 1 to 4 messages between two ranks that are under way together: (base, per byte of one)."""
    rounds: list

    def round(self, messages, size):
        base, byte = self.rounds[messages - 1]
        return base + byte * size

    @staticmethod
    def of(latency, gigabits, message):
        """latency: seconds; message: seconds that a rank works to send one and to receive one."""
        byte = 8e-9 / gigabits
        return Link([(max(latency + message, parts * message), parts * byte) for parts in range(1, PARTS + 1)])


def parts_of(group):
    each = max(FEWEST_ROWS, -(-group // PARTS))
    return -(-group // each)


def stages_of(ranks):
    """Exchanges of an all-reduce; ranks beyond a power of two add one before and one after."""
    floor = 1 << (ranks.bit_length() - 1)
    return floor.bit_length() - 1 + (2 if ranks != floor else 0)


def sent_per_row(messages, ranks):
    """Bytes that rank 0 sends per row."""
    floor = 1 << (ranks.bit_length() - 1)
    return messages.combined * (floor.bit_length() - 1 + (1 if ranks != floor else 0))


def seconds_of_group(group, ranks, work, messages, link):
    parts = parts_of(group)
    size = messages.combined * group / messages.reductions
    rounds = messages.reductions / parts
    if ranks == 1:
        return work.seconds(group, 1)
    later = (stages_of(ranks) - 1) * parts * link.round(1, size)  # these wait for each other
    return work.seconds(group, ranks) + rounds * (link.round(parts, size) + later)


def line_through(points):
    """Least squares in relative error: (value at 0, slope) of [(x, y)], neither below 0."""
    weight = [1 / y**2 for _, y in points]
    total = sum(weight)
    x = sum(w * p[0] for w, p in zip(weight, points)) / total
    y = sum(w * p[1] for w, p in zip(weight, points)) / total
    across = sum(w * (p[0] - x)**2 for w, p in zip(weight, points))
    slope = max(0.0, sum(w * (p[0] - x) * (p[1] - y) for w, p in zip(weight, points)) / across) if across else 0.0
    return (y - slope * x, slope) if y > slope * x else (0.0, y / x)


def table(head, rows):
    rows = [head] + [[str(c) for c in row] for row in rows]
    wide = [max(len(row[i]) for row in rows) for i in range(len(head))]
    rows.insert(1, ["-" * w for w in wide])
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, wide)) for row in rows)


def short(x):
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= unit:
            return f"{x / unit:.3g}{name}"
    return f"{x:.3g}"


def predict(options):
    """Rows/s of P machines with one rank each: a linear W of K classes x dense features in float32."""
    rows = []
    for classes in (10**6, 10**7, 10**8):
        memory = classes * options.features * 4
        least = max(1, math.ceil(memory / (options.memory * 1e9)))
        blocks = options.classes / BLOCK + 1
        messages = Messages(options.rounds * parts_of(options.group), options.row_bytes)
        link = Link.of(options.latency * 1e-6, options.gigabits, options.message * 1e-6)
        for ranks in (1, 4, 8, 16, 32, 64, 128, 256):
            if ranks < least:
                rows.append([short(classes), ranks, short(memory / ranks), "-", "-", "-", "-"])
                continue
            line = options.near if memory / ranks <= options.cache * 1e6 else options.line
            work = Work(options.row * 1e-6, 2 * options.nonzeros * line * 1e-9, blocks)
            seconds = seconds_of_group(options.group, ranks, work, messages, link)
            alone = options.group * (work.each + 2 * options.nonzeros * options.line * 1e-9 * blocks)
            rows.append([short(classes), ranks, short(memory / ranks), short(options.group / seconds),
                         f"{alone / seconds:.2f}", f"{1 - work.seconds(options.group, ranks) / seconds:.0%}",
                         short(sent_per_row(messages, ranks))])
    return table(["K", "machines", "W of each", "rows/s", "times one", "sending", "bytes/row"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number = dict(type=float)
    parser.add_argument("--latency", **number, default=10, help="microseconds of the link, one way")
    parser.add_argument("--gigabits", **number, default=100, help="bandwidth of the link")
    parser.add_argument("--message", **number, default=5, help="microseconds of work for a message")
    parser.add_argument("--group", type=int, default=1024, help="rows of a group")
    parser.add_argument("--classes", **number, default=1024, help="classes drawn per row")
    parser.add_argument("--features", **number, default=256, help="columns of W")
    parser.add_argument("--nonzeros", **number, default=256, help="non-zero features of a row: cache lines of a block")
    parser.add_argument("--line", **number, default=7.5, help="nanoseconds of a cache line of W that is read or updated")
    parser.add_argument("--near", **number, default=2, help="the same if a rank's part of W fits in the cache")
    parser.add_argument("--cache", **number, default=32, help="megabytes of that cache")
    parser.add_argument("--row", **number, default=1.5, help="microseconds of a row on every rank")
    parser.add_argument("--rounds", **number, default=8, help="all-reduces that wait for each other, per group")
    parser.add_argument("--row-bytes", **number, default=41, help="bytes combined per row")
    parser.add_argument("--memory", **number, default=64, help="gigabytes of a machine for W")
    options = parser.parse_args()
    said = ", ".join(f"{k.replace('_', '-')} {v:g}" for k, v in vars(options).items())
    print(textwrap.fill(f"Assumed: {said}", 100) + "\n")
    print(predict(options))


if __name__ == "__main__":
    main()
