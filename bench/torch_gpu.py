#!/usr/bin/env python3
"""truemax.torch.LinearSoftmax on a CUDA card: correctness, time of a step, and log-loss against time.

    bench/torch_gpu.py [--parts check,time,shapes,plot] [--out FOLDER]

First the layer is compared with the one on the CPU. Then steps (forward, backward and update) are timed, eagerly and as
CUDA graphs, beside the three products alone, the memory that a step must touch, and sampled softmax by PyTorch's own
operations. At last all train on the same synthetic rows. Exits with 1 if a figure that is asked for is missed."""
import argparse
import json
import math
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE") or os.path.join(HERE, os.pardir, "python"))

import torch
from torch import nn
from torch.nn import functional as F

from truemax import DivergenceError, _card
from truemax.torch import LinearSoftmax

MOST_MICROSECONDS, MOST_RATIO = 100, 1.3
BATCHES = 8  # different ones, so that rows of W come from memory
missed = []


def say(*words):
    print(*words, flush=True)


# ---------------------------------------------------------------------------------------------------------- check


def check():
    """The CUDA layer against the CPU layer, over some steps with float32 products."""
    for draw in ("uniform", "counted"):
        torch.manual_seed(1)
        cpu = LinearSoftmax(48, 5000, 3000, drawn=256, draw=draw, seed=3, step=0.01)
        card = LinearSoftmax(48, 5000, 3000, drawn=256, draw=draw, seed=3, step=0.01, products="float32", device="cuda")
        card.load_state_dict(cpu.state_dict())
        worst = 0.0
        for _ in range(5):
            x, target, index = torch.randn(512, 48), torch.randint(5000, (512,)), torch.randperm(3000)[:512]
            of_cpu = x.clone().requires_grad_()
            of_card = x.cuda().requires_grad_()
            a, b = cpu(of_cpu, target, index), card(of_card, target.cuda(), index.cuda())
            a.backward(), b.backward()
            worst = max(worst, abs(a.item() - b.item()) / abs(a.item()),
                        ((of_cpu.grad - of_card.grad.cpu()).abs().max() / of_cpu.grad.abs().max()).item())
        card.check()
        for name, tensor in cpu.state_dict().items():
            other = card.state_dict()[name].cpu().double().nan_to_num(-1)
            tensor = tensor.double().nan_to_num(-1)
            worst = max(worst, ((tensor - other).abs().max() / tensor.abs().max().clamp(min=1e-30)).item())
        say(f"check: {draw}: the largest relative difference to the CPU over 5 steps is {worst:.1e}")
        if not worst < 1e-4:
            sys.exit("the layer on CUDA differs from that on the CPU")


# ----------------------------------------------------------------------------------------------------------- time


def microseconds(work, per_turn, turns=20):
    """Of one of `per_turn` steps: the median turn, by events."""
    for _ in range(3):
        work()
    times = []
    for _ in range(turns):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / per_turn)
    return sorted(times)[turns // 2]


def graph_of(work):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


class Steps:
    def __init__(self, classes, features, rows, drawn, draw="uniform", products="bfloat16", x_type=torch.float32,
                 w_type=torch.float32, scores=torch.bfloat16, data_rows=1_000_000):
        self.layer = LinearSoftmax(features, classes, data_rows, drawn=drawn, draw=draw, products=products, seed=1,
                                   step=1e-4, device="cuda", dtype=w_type)
        self.layer._score_type = scores
        self.x = [torch.randn(rows, features, device="cuda", dtype=x_type).requires_grad_() for _ in range(BATCHES)]
        self.target = [torch.randint(classes, (rows,), device="cuda") for _ in range(BATCHES)]
        self.index = [torch.randint(data_rows, (rows,), device="cuda") for _ in range(BATCHES)]

    def __call__(self):
        for x, target, index in zip(self.x, self.target, self.index):
            x.grad = None
            self.layer(x, target, index).backward()

    def times(self, profile=None):
        eager = microseconds(self, BATCHES)
        if profile is not None:
            kernels(self, profile)
        graph = graph_of(self)
        return eager, microseconds(graph.replay, BATCHES)


def kernels(work, title):
    """Mean microseconds of each kernel of a step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    rows, total = [], 0.0
    for event in profiler.key_averages():
        spent = getattr(event, "self_device_time_total", None) or getattr(event, "self_cuda_time_total", 0)
        if spent <= 0:
            continue
        total += spent / BATCHES
        name = re.search(r"(score_and_estimate|multiply_both|DrawClasses|TakeRows|Estimate|ScaleRows|ClearColumns|SumColumns|"
                         r"Columns|Move|KeepLabels)<?", event.key)
        rows.append((spent / BATCHES, event.count / BATCHES, name.group(1) if name else event.key[:90]))
    say(f"kernels of a step, {title}: {total:.1f} microseconds in all")
    for spent, count, name in sorted(rows, reverse=True):
        say(f"  {spent:7.2f}  x{count:<4g} {name}")


def products_alone(rows, features, drawn, kind):
    size = {"dtype": torch.bfloat16 if kind == "bfloat16" else torch.float32, "device": "cuda"}
    x, w, p = torch.randn(rows, features, **size), torch.randn(drawn, features, **size), torch.rand(rows, drawn, **size)
    z = torch.empty(rows, drawn, device="cuda")
    dx, dw = torch.empty(rows, features, device="cuda"), torch.empty(drawn, features, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    wide = {"out_dtype": torch.float32} if kind == "bfloat16" else {}
    works = {"scores": lambda: torch.mm(x, w.t(), out=z, **wide), "dx": lambda: torch.mm(p, w, out=dx, **wide),
             "dW": lambda: torch.mm(p.t(), x, out=dw, **wide)}
    if kind == "bfloat16":
        narrow_z, narrow_dx = torch.empty_like(p), torch.empty_like(x)
        works["scores as bfloat16"] = lambda: torch.mm(x, w.t(), out=narrow_z)
        works["dx as bfloat16"] = lambda: torch.mm(p, w, out=narrow_dx)
        for parts in (2, 4, 8):
            sums = torch.empty(parts, drawn, features, device="cuda")
            a, b = p.view(parts, -1, drawn).transpose(1, 2), x.view(parts, -1, features)
            works[f"dW in {parts} parts"] = lambda a=a, b=b, sums=sums: torch.bmm(a, b, out=sums, **wide)
    found = {}
    for name, work in works.items():
        def many(of=work):
            for _ in range(BATCHES):
                of()
        found[name] = microseconds(graph_of(many).replay, BATCHES)
    torch.backends.cuda.matmul.allow_tf32 = False
    say(f"products alone, {kind}: " + ", ".join(f"{name} {t:.1f}" for name, t in found.items()) + " microseconds")


def memory_floor(classes, features, rows, drawn):
    """Reads x, writes dx, reads and writes the touched rows of W."""
    weight = torch.randn(classes, features, device="cuda")
    x = [torch.randn(rows, features, device="cuda") for _ in range(BATCHES)]
    places = [torch.randint(classes, (rows + drawn,), device="cuda") for _ in range(BATCHES)]
    dx, part = torch.empty_like(x[0]), torch.empty(rows + drawn, features, device="cuda")

    def work():
        for of_x, place in zip(x, places):
            dx.copy_(of_x)
            torch.index_select(weight, 0, place, out=part)
            weight.index_copy_(0, place, part)
    return microseconds(graph_of(work).replay, BATCHES)


class Sampled:
    """Sampled softmax by PyTorch's operations: uniform draws shared by the batch, and row-wise Adagrad."""

    def __init__(self, classes, features, drawn, rate):
        bound = features ** -0.5
        self.weight = torch.empty(classes, features, device="cuda").uniform_(-bound, bound)
        self.bias = torch.zeros(classes, device="cuda")
        self.square = torch.zeros(classes, device="cuda")
        self.drawn, self.rate, self.classes = drawn, torch.tensor(rate, device="cuda"), classes
        self.offset = math.log((classes - 1) / drawn)

    def loss(self, x, target):
        drawn = torch.randint(self.classes, (self.drawn,), device="cuda")
        self.touched = torch.cat((target, drawn))
        self.rows = self.weight.index_select(0, self.touched).requires_grad_()
        self.row_bias = self.bias.index_select(0, self.touched).requires_grad_()
        n = target.shape[0]
        of_label = (x * self.rows[:n]).sum(1) + self.row_bias[:n]
        scores = torch.addmm(self.row_bias[n:] + self.offset, x, self.rows[n:].t())
        scores = scores.masked_fill(drawn == target[:, None], -math.inf)
        return (torch.logsumexp(torch.cat((of_label[:, None], scores), 1), 1) - of_label).mean()

    @torch.no_grad()
    def update(self):
        g = self.rows.grad
        self.square.index_add_(0, self.touched, g.square().mean(1))
        scale = self.rate / (self.square.index_select(0, self.touched).sqrt() + 1e-10)
        self.weight.index_add_(0, self.touched, g * -scale[:, None])
        self.bias.index_add_(0, self.touched, self.row_bias.grad * -scale)

    def step(self, x, target):
        self.loss(x, target).backward()
        self.update()


def time_steps(options):
    classes, features, rows, drawn = options.classes, options.features, options.rows, options.drawn
    say(f"\nK = {classes}, D = {features}, B = {rows}, {drawn} drawn; microseconds of a step (forward, backward, update)")
    say(f"memory: x read, dx written, touched rows of W read and written: {memory_floor(classes, features, rows, drawn):.1f}")
    for kind in ("bfloat16", "tf32"):
        products_alone(rows, features, drawn, kind)
    sampled = Sampled(classes, features, drawn, 0.1)
    xs = [torch.randn(rows, features, device="cuda").requires_grad_() for _ in range(BATCHES)]
    targets = [torch.randint(classes, (rows,), device="cuda") for _ in range(BATCHES)]

    def peers():
        for x, target in zip(xs, targets):
            x.grad = None
            sampled.step(x, target)
    torch.backends.cuda.matmul.allow_tf32 = True
    say(f"PyTorch sampled softmax, TF32: eager {microseconds(peers, BATCHES):.1f}, graph "
        f"{microseconds(graph_of(peers).replay, BATCHES):.1f}")
    torch.backends.cuda.matmul.allow_tf32 = False
    del sampled, xs
    best = math.inf
    variants = [("uniform", "bfloat16", torch.float32, torch.float32, torch.float32),
                ("uniform", "bfloat16", torch.float32, torch.float32, torch.bfloat16),
                ("uniform", "bfloat16", torch.bfloat16, torch.float32, torch.float32),
                ("uniform", "bfloat16", torch.bfloat16, torch.float32, torch.bfloat16),
                ("counted", "bfloat16", torch.bfloat16, torch.float32, torch.bfloat16),
                ("uniform", "tf32", torch.float32, torch.float32, torch.float32),
                ("uniform", "bfloat16", torch.bfloat16, torch.bfloat16, torch.bfloat16)]
    say("| draw | products | x | W | scores | eager | graph |")
    for turn in range(3):  # where W lies in memory matters
        steps = Steps(classes, features, rows, drawn, "uniform", "bfloat16", torch.bfloat16)
        eager, graph = steps.times()
        say(f"layer {turn + 1}, x in bfloat16: eager {eager:.1f}, graph {graph:.1f}")
        best = min(best, graph)
        del steps
        torch.cuda.empty_cache()
    for number, (draw, products, x_type, w_type, scores) in enumerate(variants):
        steps = Steps(classes, features, rows, drawn, draw, products, x_type, w_type, scores)
        eager, graph = steps.times(f"{draw}, {products}, x {x_type}" if number in (0, 3, 5) else None)
        steps.layer.check()
        names = " | ".join(str(t).replace("torch.", "") for t in (x_type, w_type, scores))
        say(f"| {draw} | {products} | {names} | {eager:.1f} | {graph:.1f} |")
        if w_type == torch.float32:
            best = min(best, graph)
        del steps
        torch.cuda.empty_cache()
    if best > MOST_MICROSECONDS:
        missed.append(f"the best step takes {best:.1f} microseconds, more than {MOST_MICROSECONDS}")
    by_size = {}
    for some in (100_000, 1_000_000, 10_000_000):
        steps = Steps(some, 128, rows, drawn, "uniform", "bfloat16", torch.bfloat16, torch.float32, torch.bfloat16)
        eager, by_size[some] = steps.times()
        counted = Steps(some, 128, rows, drawn, "counted", "bfloat16", torch.bfloat16, torch.float32, torch.bfloat16)
        say(f"K = {some}, D = 128: eager {eager:.1f}, graph {by_size[some]:.1f}; counted: graph {counted.times()[1]:.1f}")
        del steps, counted
        torch.cuda.empty_cache()
    ratio = max(by_size.values()) / min(by_size.values())
    say(f"ratio from K = 10^5 to 10^7: {ratio:.2f}")
    if ratio > MOST_RATIO:
        missed.append(f"steps differ by {ratio:.2f} times between K = 10^5 and 10^7, more than {MOST_RATIO}")


SHAPES = ((8192, 512, 1024), (8192, 512, 512), (8192, 512, 256), (8192, 512, 64), (2048, 256, 512), (1024, 512, 1024),
          (256, 256, 1024), (8192, 128, 1024), (8192, 768, 1024), (4096, 1024, 512), (32_768, 256, 1024))


def time_shapes(options):
    """With PyTorch's products, and with those of the layer's own kernels where it has them."""
    say("\n| rows | D | drawn | PyTorch's products | scores ours | gradients ours | both ours |")
    for rows, features, drawn in SHAPES:
        found = []
        for ours in ((), ("score",), ("multiply",), ("score", "multiply")):
            steps = Steps(options.classes, features, rows, drawn, "uniform", "bfloat16", torch.bfloat16)
            card = steps.layer._card()
            card.functions = {name: function if name in ours or name not in ("score", "multiply") else
                              lambda *_: _card._NOT_HERE for name, function in card.functions.items()}
            found.append(steps.times()[1])
            del steps, card
            torch.cuda.empty_cache()
        say(f"| {rows} | {features} | {drawn} | " + " | ".join(f"{t:.1f}" for t in found) + " |")


def few_steps(options):
    """For a profiler of kernels."""
    steps = Steps(options.classes, options.features, options.rows, options.drawn, "uniform", "bfloat16", torch.bfloat16)
    steps()
    steps()
    torch.cuda.synchronize()


# ----------------------------------------------------------------------------------------------------------- plot


class Problem:
    """Rows are the vector of a class plus noise."""

    def __init__(self, options):
        generator = torch.Generator("cuda").manual_seed(1)
        d = self.features = options.features
        self.classes, self.count = options.classes, options.data_rows
        self.centre = F.normalize(torch.randn(self.classes, d, device="cuda", generator=generator), dim=1)
        self.target = torch.randint(self.classes, (self.count,), device="cuda", generator=generator)
        self.x = torch.empty(self.count, d, device="cuda", dtype=torch.bfloat16)
        self.noise = options.noise / math.sqrt(d)
        for first in range(0, self.count, 250_000):
            self.x[first:first + 250_000] = self.rows(self.target[first:first + 250_000], generator).bfloat16()
        self.test_target = torch.randint(self.classes, (2048,), device="cuda", generator=generator)
        self.test_x = self.rows(self.test_target, generator)
        self.some_x, self.some_target = self.x[:2048].float(), self.target[:2048]

    def least_loss(self):
        """The log-loss of new rows by the true probabilities."""
        logits = lambda x: F.linear(x, self.centre) / self.noise ** 2
        return sum(F.cross_entropy(logits(x), y, reduction="sum").item()
                   for x, y in zip(self.test_x.split(512), self.test_target.split(512))) / len(self.test_target)

    def rows(self, target, generator):
        noise = torch.randn(target.shape[0], self.features, device="cuda", generator=generator)
        return self.centre[target] + self.noise * noise


@torch.no_grad()
def exact_loss(encoder, weight, bias, x, target):
    total = 0.0
    for first in range(0, x.shape[0], 512):
        h = encoder(x[first:first + 512])
        total += F.cross_entropy(F.linear(h, weight, bias), target[first:first + 512], reduction="sum").item()
    return total / x.shape[0]


def train(problem, name, seconds, falls, rows, make):
    """[(seconds of training, exact log-loss of new rows, of training rows)]; evaluation is not counted.

    Rates fall on a line to 1% after `falls` seconds of training, and stay there."""
    torch.manual_seed(0)
    encoder = nn.Linear(problem.features, problem.features, bias=False).cuda()
    static = (torch.zeros(rows, problem.features, device="cuda", dtype=torch.bfloat16),
              torch.zeros(rows, dtype=torch.int64, device="cuda"), torch.zeros(rows, dtype=torch.int64, device="cuda"))
    step, state, set_rates = make(encoder, *static)
    curve, spent, checks = [], 0.0, [0.1 * 1.45 ** i for i in range(40)]
    batches, taken = iter(()), 0

    def advance(goal):
        nonlocal batches, taken
        began = time.perf_counter()
        while True:
            set_rates(max(0.01, 1 - (spent + time.perf_counter() - began) / falls))
            for _ in range(8):
                taken += 1
                index = next(batches, None)
                if index is None:
                    order = torch.randperm(problem.count, device="cuda")
                    batches = iter(order[:problem.count // rows * rows].view(-1, rows))
                    index = next(batches)
                torch.index_select(problem.x, 0, index, out=static[0])
                torch.index_select(problem.target, 0, index, out=static[1])
                static[2].copy_(index)
                step()
            torch.cuda.synchronize()
            if time.perf_counter() - began >= goal:
                return time.perf_counter() - began
    while spent < seconds:
        torch.cuda.synchronize()
        spent += advance(next(c for c in checks if c > spent) - spent)
        try:
            weight, bias = state()
        except (ValueError, DivergenceError) as error:
            say(f"{name} ended after {spent:.2f} s: {error}")
            break
        losses = [exact_loss(encoder, weight, bias, *of) for of in ((problem.test_x, problem.test_target),
                                                                    (problem.some_x, problem.some_target))]
        if not all(map(math.isfinite, losses)):
            say(f"{name} ended after {spent:.2f} s: its loss is not finite")
            break
        curve.append((spent, *losses))
    say(f"{name}: {1e6 * spent / max(taken, 1):.0f} microseconds a step; " + " ".join(f"{t:.2f}s {a:.3f}/{b:.3f}" for t, a, b in curve))
    return curve


def ours(options, step_size, rate):
    def make(encoder, x, target, index):
        layer = LinearSoftmax(options.features, options.classes, options.data_rows, drawn=options.drawn, draw="uniform",
                              step=step_size, seed=1, device="cuda")
        of_encoder = torch.tensor(rate, device="cuda")
        optimizer = torch.optim.Adam(encoder.parameters(), lr=of_encoder, capturable=True, fused=True)

        def set_rates(part):
            layer.step = step_size * part
            of_encoder.fill_(rate * part)

        def work():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = layer(encoder(x), target, index)
            loss.backward()
            optimizer.step()
        graph = captured(work, encoder, optimizer, lambda: layer.reset_parameters())
        return graph.replay, lambda: (layer.check(), (layer.weight, layer.bias))[1], set_rates
    return make


def captured(work, encoder, optimizer, reset):
    """A graph of a step, with everything as it was before the warm-up."""
    before = encoder.weight.detach().clone()
    graph = graph_of(work)
    with torch.no_grad():
        encoder.weight.copy_(before)
        for state in optimizer.state.values():
            for tensor in state.values():
                tensor.zero_()
    reset()
    return graph


def sampled(options, rate, encoder_rate):
    def make(encoder, x, target, index):
        head = Sampled(options.classes, options.features, options.drawn, rate)
        of_encoder = torch.tensor(encoder_rate, device="cuda")
        optimizer = torch.optim.Adam(encoder.parameters(), lr=of_encoder, capturable=True, fused=True)

        def set_rates(part):
            head.rate.fill_(rate * part)
            of_encoder.fill_(encoder_rate * part)

        def work():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                h = encoder(x)
            head.step(h.float(), target)
            optimizer.step()

        def reset():
            bound = options.features ** -0.5
            head.weight.uniform_(-bound, bound)
            head.bias.zero_(), head.square.zero_()
        torch.backends.cuda.matmul.allow_tf32 = True
        graph = captured(work, encoder, optimizer, reset)
        torch.backends.cuda.matmul.allow_tf32 = False
        return graph.replay, lambda: (head.weight, head.bias), set_rates
    return make


def full(options, rate):
    def make(encoder, x, target, index):
        head = nn.Linear(options.features, options.classes).cuda()
        of_all = torch.tensor(rate, device="cuda")
        optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=of_all, capturable=True, fused=True)

        def work():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(head(encoder(x)), target)
            loss.backward()
            optimizer.step()
        return work, lambda: (head.weight, head.bias), lambda part: of_all.fill_(rate * part)
    return make


def plot(options):
    problem = Problem(options)
    say(f"\nexact log-loss against seconds of training, new rows/training rows; K = {options.classes}, "
        f"{options.data_rows} rows, noise {options.noise:g}; the log-loss of the true probabilities is "
        f"{problem.least_loss():.3f}")
    curves, seconds = {}, options.seconds
    makes = [(f"LinearSoftmax, step {step:g}", "ours", ours(options, step, options.encoder_rate), seconds, options.falls)
             for step in options.steps]
    makes += [(f"sampled softmax, Adagrad {rate:g}", "sampled", sampled(options, rate, options.encoder_rate), seconds,
               options.falls) for rate in options.sampled_rates]
    makes += [(f"full softmax, Adam {rate:g}", "full", full(options, rate), 2 * seconds, [2 * seconds])
              for rate in options.full_rates]
    for name, kind, make, length, falls in makes:
        for fall in falls:
            full_name = f"{name}, falls for {fall:g} s"
            curves[full_name] = (kind, train(problem, full_name, length, fall, options.rows, make))
            torch.cuda.empty_cache()
    with open(os.path.join(options.out, "torch_gpu_curves.json"), "w", encoding="ascii") as file:
        json.dump(curves, file)
    draw(curves, os.path.join(options.out, "torch_gpu.png"))
    mine = min((curve for kind, curve in curves.values() if kind == "ours" and curve), key=lambda curve: curve[-1][1],
               default=None)
    if mine is None:
        missed.append("no run of LinearSoftmax has ended with a finite loss")
        return
    say("our best run: " + next(name for name, (_, curve) in curves.items() if curve is mine))
    # Against the best of all others at each time.
    for name, (kind, curve) in curves.items():
        for t, loss, _ in curve:
            if kind != "ours" and 1 <= t <= mine[-1][0] and not at(mine, t) <= loss:
                missed.append(f"{name} is lower after {t:.1f} s: {loss:.3f}, ours {at(mine, t):.3f}")
                break


def at(curve, t):
    """The last loss measured until t."""
    return next((loss for seconds, loss, _ in reversed(curve) if seconds <= t), math.inf)


def draw(curves, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        say("no matplotlib: no picture")
        return
    colours = {"ours": "C0", "sampled": "C1", "full": "C2"}
    for number, (name, (kind, curve)) in enumerate(curves.items()):
        pyplot.plot([c[0] for c in curve], [c[1] for c in curve], color=colours[kind], alpha=0.4 + 0.2 * (number % 3),
                    marker=".", label=name)
    pyplot.xscale("log")
    pyplot.xlabel("seconds of training")
    pyplot.ylabel("exact log-loss of new rows")
    pyplot.legend(fontsize=7)
    pyplot.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", default="check,time,plot")
    parser.add_argument("--out", default=".")
    for name, value in (("classes", 360_232), ("features", 512), ("rows", 8192), ("drawn", 1024),
                        ("data-rows", 5_000_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--noise", type=float, default=3, help="length of the noise of a row; vectors of classes have 1")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--encoder-rate", type=float, default=1e-3, help="Adam's rate of the layer below")

    def numbers(text):
        return [float(number) for number in text.split(",")]
    parser.add_argument("--falls", type=numbers, default=[1, 3], help="seconds in which rates fall to 1%%")
    parser.add_argument("--steps", type=numbers, default=[0.0025, 0.005, 0.01])
    parser.add_argument("--sampled-rates", type=numbers, default=[0.01, 0.03, 0.1])
    parser.add_argument("--full-rates", type=numbers, default=[0.001, 0.003, 0.01])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("there is no CUDA card; run this on a machine with one")
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for part in options.parts.split(","):
        {"check": lambda _: check(), "time": time_steps, "shapes": time_shapes, "few": few_steps,
         "plot": plot}[part](options)
    if missed:
        sys.exit("; ".join(missed))


if __name__ == "__main__":
    main()
