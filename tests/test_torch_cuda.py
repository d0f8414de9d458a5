#!/usr/bin/python3
"""truemax.torch.LinearSoftmax on CUDA tensors: the results of the CPU, and torch's manners on a card.

Without a card, what does not need one runs over kernels on the CPU (libtruemax_emulated.so), and the rest is skipped by
name. The package comes from TRUEMAX_PACKAGE, build/python, or the sources with the libraries of build/release."""
import contextlib
import copy
import io
import math
import os
import pickle
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_package():
    for folder in (os.environ.get("TRUEMAX_PACKAGE"), os.path.join(ROOT, "build", "python")):
        if folder and os.path.isfile(os.path.join(folder, "truemax", "_card.py")):
            return folder
    os.environ.setdefault("TRUEMAX_LIBRARY", os.path.join(ROOT, "build", "release", "libtruemax.so"))
    return os.path.join(ROOT, "python")


sys.path.insert(0, find_package())
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("skipped: no PyTorch; install python3-torch", file=sys.stderr)
    sys.exit(77)
from truemax import DivergenceError
from truemax.torch import LinearSoftmax

EMULATED = os.environ.get("TRUEMAX_EMULATED", os.path.join(ROOT, "build", "release", "libtruemax_emulated.so"))
CARD = torch.cuda.is_available()
DEVICE = "cuda" if CARD else "cpu"
if not CARD and not os.path.isfile(EMULATED):
    print(f"skipped: no CUDA card, and no {EMULATED}", file=sys.stderr)
    sys.exit(77)
needs_card = unittest.skipUnless(CARD, "there is no CUDA card")
needs_sm90 = unittest.skipUnless(CARD and torch.cuda.get_device_capability() == (9, 0),
                                 "there is no CUDA card of compute capability 9.0")
torch.set_num_threads(1)


@contextlib.contextmanager
def on_card():
    """Where CPU tensors stand for those of a card, if there is none."""
    if CARD:
        yield
        return
    os.environ["TRUEMAX_CUDA_LIBRARY"] = EMULATED
    try:
        yield
    finally:
        del os.environ["TRUEMAX_CUDA_LIBRARY"]


def rows_of(n, features, classes, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator).to(dtype)
    return x, torch.randint(classes, (n,), generator=generator)


def state_of(layer):
    return {name: tensor.detach().cpu().clone() for name, tensor in layer.state_dict().items()}


def difference(a, b):
    a, b = a.detach().cpu().double().nan_to_num(-7), b.detach().cpu().double().nan_to_num(-7)
    return ((a - b).abs().max() / a.abs().max().clamp(min=1e-30)).item() if a.numel() else 0.0


class CardTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def close(self, a, b, tolerance=2e-6, what=""):
        self.assertEqual(a.shape, b.shape)
        self.assertLessEqual(difference(a, b), tolerance, what)

    def same_state(self, a, b, tolerance=0.0):
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.close(a[name], b[name], tolerance, name)

    def pair(self, features, classes, rows, **keywords):
        """The same layer on the CPU and on the card."""
        cpu = LinearSoftmax(features, classes, rows, **{"products": "float32", "step": 0.01, "seed": 5, **keywords})
        card = copy.deepcopy(cpu)
        if CARD:
            card.cuda()
        return cpu, card

    def step(self, layer, x, target, index=None, weights=None):
        x = x.clone().to(layer.weight.device).requires_grad_()
        move = lambda t: None if t is None else t.to(layer.weight.device)
        loss = layer(x, move(target), move(index))
        (loss if weights is None else loss * move(weights)).sum().backward()
        return loss.detach(), x.grad

    def compare(self, features, classes, batch, steps=4, scale=1.0, skewed=False, tolerance=5e-6, with_index=True,
                weights=None, **keywords):
        cpu, card = self.pair(features, classes, 200, **keywords)
        for number in range(steps):
            x, target = rows_of(batch, features, classes, number)
            if skewed:
                target = (classes * (target.double() / classes) ** 6).long()
            target[batch // 2] = -100
            index = torch.randperm(200)[:batch] if with_index else None
            wanted = self.step(cpu, scale * x, target, index, weights)
            with on_card():
                found = self.step(card, scale * x, target, index, weights)
                card.check()
            self.close(wanted[0], found[0], tolerance, f"loss of step {number}")
            self.close(wanted[1], found[1], tolerance, f"gradient of step {number}")
        self.same_state(state_of(cpu), state_of(card), tolerance)


class LikeTheCpu(CardTest):
    def test_every_draw(self):
        for draw in ("uniform", "counted", torch.rand(300) ** 3):
            for features, batch, drawn in ((16, 40, 20), (7, 33, 37), (8, 20, 299), (16, 40, 300)):
                self.compare(features, 300, batch, draw=draw, drawn=drawn)

    def test_labels_that_many_rows_have(self):
        self.compare(264, 300, 60, drawn=20, skewed=True)
        self.compare(16, 5, 60, drawn=3, draw="uniform")

    def test_reductions_and_weights(self):
        self.compare(16, 300, 40, drawn=20, reduction="sum")
        self.compare(16, 300, 40, drawn=20, reduction="none", weights=torch.linspace(-0.5, 1, 40))
        self.compare(16, 300, 40, drawn=20, reduction="mean", class_weight=torch.rand(300))

    def test_without_bias_and_index(self):
        self.compare(16, 300, 40, drawn=20, bias=False, with_index=False)
        self.compare(16, 300, 40, drawn=20, rho=math.inf)

    def test_more_drawn_classes_than_registers_hold(self):
        self.compare(8, 1500, 30, drawn=1100, draw="uniform", steps=2)

    def test_more_draws_than_shared_memory_holds(self):
        for draw in ("uniform", "counted", torch.rand(4000) ** 3):
            self.compare(8, 4000, 30, drawn=2100, draw=draw, steps=2)

    def test_extreme_rows(self):
        for scale in (1e-30, 1e-6):
            self.compare(16, 300, 40, drawn=20, scale=scale, tolerance=2e-5)
        # A score of 3 10^4 is rounded by up to 10^-3 in float32, and where two classes are nearly equal so is p.
        self.compare(16, 300, 40, drawn=20, scale=1e4, tolerance=2e-3)
        # Scores of 10^12 leave few digits of their differences, here and on the CPU.
        _, card = self.pair(16, 300, 200, drawn=20)
        with on_card():
            for number in range(3):
                x, target = rows_of(40, 16, 300, number)
                for tensor in (*self.step(card, 1e12 * x, target, torch.arange(40)), *state_of(card).values()):
                    self.assertTrue(bool(tensor.nan_to_num(0, math.inf, math.inf).double().isfinite().all()))
            card.check()
            self.assertTrue(bool(card.weight.isfinite().all() and card.bias.isfinite().all()))

    def test_more_labels_than_the_ring_holds(self):
        cpu, card = self.pair(4, 20, 0, drawn=10)
        for layer in (cpu, card):
            layer.counters[1] = 65530  # six places before the ring begins anew
            layer.recent_count[0] = 65530
        x, target = rows_of(50, 4, 20)
        self.step(cpu, x, target)
        with on_card():
            self.step(card, x, target)
        self.same_state(state_of(cpu), state_of(card), 2e-6)

    @needs_card
    def test_large_batches(self):
        self.compare(512, 30_000, 200, drawn=1024, steps=3, tolerance=2e-5)

    @needs_card
    def test_every_type_of_products_is_near_float32(self):
        for products, tolerance in (("tf32", 2e-3), ("bfloat16", 2e-2)):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
                wanted, found = (LinearSoftmax(64, 3000, 200, drawn=256, products=kind, seed=1, device="cuda")
                                 for kind in ("float32", products))
                found.load_state_dict(wanted.state_dict())
                x, target = rows_of(200, 64, 3000)
                a = self.step(wanted, x.to(dtype), target, torch.arange(200))
                b = self.step(found, x.to(dtype), target, torch.arange(200))
                self.close(a[0], b[0], tolerance)
                self.assertEqual(b[1].dtype, dtype)
                self.assertLess((a[1].double() - b[1].double()).norm() / a[1].double().norm(), tolerance)


@needs_sm90
class OwnProducts(CardTest):
    """Kernels that multiply, for products in bfloat16: beside PyTorch's products, with scores in float32."""

    SHAPES = ((8192, 512, 20_000, 1024), (256, 64, 3000, 1024), (200, 72, 3000, 1000), (77, 128, 3000, 513),
              (300, 512, 800, 512), (300, 512, 300, 300), (1000, 264, 2000, 100), (129, 768, 900, 16), (64, 8, 50, 33),
              (2048, 256, 3000, 64), (2112, 512, 3000, 512), (600, 512, 3000, 1100))

    def layers(self, shape, own, **keywords):
        """Of which `own` multiplies in its own kernels, whatever the number of rows."""
        rows, features, classes, drawn = shape
        torch.manual_seed(3)
        layer = LinearSoftmax(features, classes, rows, drawn=drawn, products="bfloat16", seed=3, step=0.01,
                              device="cuda", **keywords)
        card = layer._card()
        if own:
            card.processors = max(2, min(card.processors, rows // 64 * 5))
        else:
            layer._score_type = torch.float32
            card.functions = {**card.functions, "multiply": lambda *_: -1}
        return layer

    def batch(self, shape, scale=1.0):
        rows, features, classes, _ = shape
        x, target = rows_of(rows, features, classes)
        target[::17] = -100
        target[5::40] = target[4]
        return (scale * x).bfloat16().cuda(), target.cuda(), torch.randperm(rows).cuda()

    def step_of(self, layer, x, target, index, weights=None):
        x = x.clone().requires_grad_()
        loss = layer(x, target, index)
        (loss if weights is None else loss * weights).sum().backward()
        layer.check()
        return loss.detach(), x.grad.float(), layer._card().spare[-1]

    def is_finite(self, layer, *tensors):
        for name, tensor in state_of(layer).items():
            if name == "u":  # NaN: a row that was not seen
                tensor = tensor[~tensor.isnan()]
            self.assertTrue(bool(tensor.double().isfinite().all()), name)
        for tensor in tensors:
            self.assertTrue(bool(tensor.double().isfinite().all()))

    def compare_steps(self, shape, scale=1.0, **keywords):
        wanted, found = (self.layers(shape, own, **keywords) for own in (False, True))
        weights = torch.linspace(-0.5, 1, shape[0], device="cuda") if keywords.get("reduction") == "none" else None
        for number in range(3):
            batch = self.batch(shape, scale)
            (a, dx, old), (b, own_dx, new) = (self.step_of(layer, *batch, weights) for layer in (wanted, found))
            what = f"{shape}, {scale}, {keywords}, step {number}"
            self.close(a, b, 2e-6 if number == 0 else 2e-3, what)
            # Of p, 8 bits; exps of half as many classes each have been rounded before.
            spread = (old.p.float() - new.p.float()).abs() - 2.0 ** -6 * old.p.float().abs()
            self.assertLess(spread.max().item(), 1e-30 if number == 0 else 0.05, what)
            self.assertLess(((dx - own_dx).norm() / dx.norm().clamp(min=1e-30)).item(), 0.02, what)
            if number == 0:
                self.assertTrue(torch.equal(old.by_row_whole[:3], new.by_row_whole[:3]), what)  # label, place, rows
                self.close(old.by_slot[1], new.by_slot[1], 5e-3, what)  # sums over rows
            self.is_finite(found)

    def test_scores_and_estimate_are_those_of_two_steps(self):
        for shape in self.SHAPES:
            for draw in ("uniform", "counted"):
                self.compare_steps(shape, draw=draw)

    def test_every_reduction_and_no_bias(self):
        shape = self.SHAPES[4]
        for reduction in ("sum", "none"):
            self.compare_steps(shape, reduction=reduction, draw="uniform")
        self.compare_steps(shape, bias=False, draw="uniform")
        self.compare_steps(shape, rho=math.inf, draw="uniform")

    def test_extreme_rows(self):
        for scale in (1e-30, 1e-3, 30.0):
            self.compare_steps(self.SHAPES[4], scale, draw="counted")
        for scale in (1e4, 1e12):
            layer = self.layers(self.SHAPES[4], True, draw="counted")
            for _ in range(3):
                loss, dx, part = self.step_of(layer, *self.batch(self.SHAPES[4], scale))
                self.is_finite(layer, loss, dx, part.p)

    def test_gradients_are_the_products(self):
        for shape in self.SHAPES:
            if shape[1] % 256 % 192 > 0 and shape[1] < 768:  # their tiles would be too empty
                continue
            layer = self.layers(shape, True, draw="uniform")
            _, _, part = self.step_of(layer, *self.batch(shape))
            card, call = layer._card(), part.call
            self.assertEqual(call.gradient_type, 1, "its own kernel has multiplied")
            parts = card.work.gradient.view(torch.bfloat16).flatten()[:call.splits * card.slots * card.features]
            found = parts.view(call.splits, card.slots, card.features).double().sum(0)
            wanted = part.p.double().t() @ part.x_copy.double()
            # Each part is rounded to 8 bits.
            sizes = part.p.double().abs().t() @ part.x_copy.double().abs()
            self.assertLess(((found - wanted).abs() - 2.0 ** -8 * sizes).max().item(), 1e-12, shape)

    def test_in_a_graph(self):
        shape = self.SHAPES[4]
        eager, captured = (self.layers(shape, True, draw="uniform") for _ in range(2))
        x, target, index = self.batch(shape)
        x.requires_grad_()

        def work(layer):
            x.grad = None
            layer(x, target, index).backward()
        for layer in (eager, captured):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    work(layer)
            torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work(captured)
        for _ in range(4):
            graph.replay()
            work(eager)
        torch.cuda.synchronize()
        self.same_state(state_of(eager), state_of(captured), 2e-3)

    def test_few_rows_use_other_kernels(self):
        layer = LinearSoftmax(64, 3000, 100, drawn=256, products="bfloat16", device="cuda")
        x, target = rows_of(100, 64, 3000)
        _, _, part = self.step_of(layer, x.bfloat16().cuda(), target.cuda(), torch.arange(100).cuda())
        self.assertEqual(part.call.gradient_type, 0)


class Manners(CardTest):
    def layer(self, *arguments, **keywords):
        return LinearSoftmax(*arguments, device=DEVICE, **{"products": "float32", **keywords})

    def run(self, result=None):
        with on_card():
            return super().run(result)

    def test_forward_changes_nothing_and_backward_is_one_step(self):
        layer = self.layer(8, 500, 30, drawn=20)
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 500))
        index = torch.arange(30, device=DEVICE)
        before = state_of(layer)
        loss = layer(x.requires_grad_(), target, index)
        with torch.no_grad():
            self.assertEqual(layer(x, target, index).item(), loss.item())
        self.same_state(state_of(layer), before)
        loss.backward(retain_graph=True)
        self.assertEqual(layer.counters[0], 1)
        after = state_of(layer)
        with self.assertRaisesRegex(RuntimeError, "call forward again"):
            loss.backward()
        self.same_state(state_of(layer), after)
        with self.assertRaisesRegex(RuntimeError, "no second derivatives"):
            torch.autograd.grad(layer(x, target), x, create_graph=True)

    def test_two_forwards_before_two_backwards(self):
        """Accumulating gradients: each batch is a step, with the weights that its forward saw."""
        x, target = rows_of(30, 8, 500)
        target[:6] = 3
        cpu, card = self.pair(8, 500, 30, drawn=20)
        states = []
        for layer, context in ((cpu, contextlib.nullcontext()), (card, on_card())):
            if not CARD:
                os.environ.pop("TRUEMAX_CUDA_LIBRARY", None)
            with context:
                of_x = x.clone().to(layer.weight.device).requires_grad_()
                y, index = target.to(of_x.device), torch.arange(30, device=of_x.device)
                losses = [layer(of_x[part], y[part], index[part]) for part in (slice(0, 15), slice(15, 30))]
                for loss in losses:
                    (loss / 2).backward()
            states.append({**state_of(layer), "dx": of_x.grad.cpu()})
        if not CARD:
            os.environ["TRUEMAX_CUDA_LIBRARY"] = EMULATED
        self.assertEqual(states[1]["counters"][0], 2)
        self.same_state(states[0], states[1], 5e-6)

    def test_a_common_factor_has_no_effect_on_the_step(self):
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 500))
        states = []
        for scale in (1.0, 65536.0, -1.0):
            layer = self.layer(8, 500, 30, drawn=20, seed=3)
            layer.weight.copy_(torch.linspace(-1, 1, 4000).reshape(500, 8))
            layer.bias.zero_()
            (scale * layer(x, target, torch.arange(30, device=DEVICE))).backward()
            states.append(state_of(layer))
        self.same_state(states[0], states[1], 1e-6)
        self.assertGreater(difference(states[0]["weight"], states[2]["weight"]), 1e-5)

    def test_gradients_of_0_and_empty_batches_change_nothing(self):
        layer = self.layer(8, 500, 30, drawn=20)
        before = state_of(layer)
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 500))
        (0 * layer(x, target, torch.arange(30, device=DEVICE))).backward()
        for n in (0, 4):
            for reduction in ("mean", "sum", "none"):
                layer.reduction = reduction
                some = x[:n].clone().requires_grad_()
                loss = layer(some, torch.full((n,), -100, device=DEVICE), torch.arange(n, device=DEVICE))
                loss.sum().backward()
                self.assertEqual((loss.sum().item(), some.grad.abs().sum().item()), (0, 0))
        self.same_state(state_of(layer), before)

    def test_rows_that_cannot_be_used_are_left_out_and_reported(self):
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 500))
        index = torch.arange(30, device=DEVICE)
        for name, value, words in (("target", 500, "target is 500 in row 3"), ("target", -1, "target is -1 in row 3"),
                                   ("index", 30, "index is 30 in row 3"), ("index", -1, "index is -1 in row 3"),
                                   ("x", math.nan, "x in row 3 .* not finite"), ("x", math.inf, "x in row 3"),
                                   ("x", 1e30, r"x in row 3 .* is 1e\+30")):
            layer = self.layer(8, 500, 30, drawn=20, seed=1)
            without = copy.deepcopy(layer)
            given = {"x": x.clone(), "target": target.clone(), "index": index.clone()}
            given[name][3] = value
            given["x"].requires_grad_()
            loss = layer(given["x"], given["target"], given["index"])
            loss.backward()
            ignored = target.clone()
            ignored[3] = -100
            without(x, ignored, index).backward()
            self.same_state(state_of(layer), state_of(without), 1e-6)
            self.assertTrue(math.isfinite(loss.item()) and given["x"].grad.isfinite().all())
            with self.assertRaisesRegex(ValueError, words) as caught:
                layer.check()
            self.assertIn("; ", str(caught.exception))
            layer.check()
            layer(x, target, index).backward()
            layer.check()

    def test_weights_and_gradients_that_cannot_be_used(self):
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 20))
        layer = self.layer(8, 20)
        layer.weight[target[0]] = math.nan
        loss = layer(x.requires_grad_(), target)
        loss.backward()
        self.assertTrue(math.isfinite(loss.item()) and x.grad.isfinite().all())
        with self.assertRaisesRegex(ValueError, "not finite; reset them"):
            layer.check()
        layer = self.layer(8, 20)
        layer.weight[target[0]] = 1e20
        layer(x, target).backward()
        with self.assertRaisesRegex(DivergenceError, "smaller step"):
            layer.check()
        for reduction in ("mean", "none"):
            layer = self.layer(8, 20, reduction=reduction)
            before = state_of(layer)
            (layer(x, target) * math.inf).sum().backward()
            with self.assertRaisesRegex(ValueError, "gradient of the loss"):
                layer.check()
            self.same_state(state_of(layer), before)
        with self.assertRaisesRegex(DivergenceError, "smaller step"):
            self.layer(8, 20, step=1e20)(x, target).backward()

    def test_everything_stays_finite(self):
        for step in (1e-8, 1.0, 1e8):
            for scale in (1e-30, 1.0, 1e12):
                layer = self.layer(8, 200, 30, drawn=20, step=step)
                x, target = rows_of(30, 8, 200)
                x = (scale * x).to(DEVICE).requires_grad_()
                for _ in range(4):
                    loss = layer(x, target.to(DEVICE), torch.arange(30, device=DEVICE))
                    loss.backward()
                    self.assertTrue(math.isfinite(loss.item()))
                layer.check()
                self.assertTrue(layer.weight.isfinite().all() and layer.u.isfinite().all() and x.grad.isfinite().all())

    def test_exact_losses_and_best_classes(self):
        layer = self.layer(8, 3000, 30, drawn=10)
        layer.weight[7] = layer.weight[2999]
        layer.bias[7] = layer.bias[2999]
        x, target = rows_of(50, 8, 3000)
        target[2] = -100
        wide = x.double().requires_grad_()
        z = F.linear(wide, layer.weight.cpu().double(), layer.bias.cpu().double())
        wanted = F.cross_entropy(z, target)
        wanted.backward()
        self.close(layer.nll(x.to(DEVICE), target.to(DEVICE)), wanted.detach(), 1e-5)
        layer.eval()
        of_card = x.to(DEVICE).requires_grad_()
        before = state_of(layer)
        loss = layer(of_card, target.to(DEVICE))
        loss.backward()
        self.same_state(state_of(layer), before)
        self.close(loss.detach(), wanted.detach(), 1e-5)
        self.close(of_card.grad, wide.grad, 1e-5)
        best = z.detach().log_softmax(1)
        values, indices = layer.topk(x.to(DEVICE), 6)
        self.close(values, best.gather(1, indices.cpu()), 1e-5)
        self.close(values, best.topk(6).values, 1e-5)
        layer.weight.zero_(), layer.bias.zero_()
        self.assertEqual(layer.topk(x[:1].to(DEVICE), 4).indices.tolist(), [[0, 1, 2, 3]])
        with self.assertRaisesRegex(ValueError, "target is 3000 in row 1"):
            layer.nll(x.to(DEVICE), torch.full((50,), 3000).to(DEVICE).index_fill_(0, torch.tensor([0]).to(DEVICE), 1))

    def test_copies_and_files_continue_the_run(self):
        x, target = (t.to(DEVICE) for t in rows_of(30, 8, 500))
        index = torch.arange(30, device=DEVICE)
        for draw in ("counted", "uniform", torch.rand(500)):
            whole = self.layer(8, 500, 30, drawn=20, draw=draw)
            for _ in range(2):
                whole(x, target, index).backward()
            file = io.BytesIO()
            torch.save(whole.state_dict(), file)
            file.seek(0)
            loaded = self.layer(8, 500, 30, drawn=20, draw=draw)
            loaded.load_state_dict(torch.load(file))
            others = [loaded, copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))]
            for layer in (whole, *others):
                for _ in range(2):
                    layer(x, target, index).backward()
            for other in others:
                self.same_state(state_of(other), state_of(whole), 1e-6)

    def test_bfloat16_weights_are_rounded_without_bias(self):
        """A step that is far below the spacing of bfloat16 moves weights by as much on average as in float32."""
        x, target = rows_of(40, 64, 300)
        moved = []
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(1)
            layer = self.layer(64, 300, step=1e-4, drawn=100, draw="uniform", seed=2, dtype=dtype)
            self.assertEqual(layer.weight.dtype, dtype)
            layer.weight.fill_(0.5)  # neighbours are 0.0039 and 0.002 away
            for _ in range(4):
                layer(x.to(DEVICE), target.to(DEVICE)).backward()
            moved.append(layer.weight.float().cpu() - 0.5)
        self.assertGreater(moved[1].abs().max().item(), 0)
        # The mean over columns and classes of the move in the direction of float32.
        along = ((moved[0].sign() * moved[1]).mean() / moved[0].abs().mean()).item()
        self.assertLess(abs(along - 1), 0.25)
        self.assertLess(abs(moved[1].mean().item()), 5e-5)

    def test_what_is_refused(self):
        for words, keywords in (("products is 'int8'", {"products": "int8"}),
                                ("dtype is torch.float16", {"dtype": torch.float16})):
            with self.assertRaisesRegex(ValueError, words):
                self.layer(8, 20, **keywords)
        if CARD:
            layer = self.layer(8, 20)
            x, target = rows_of(30, 8, 20)
            for arguments in ((x, target.cuda()), (x.cuda(), target)):
                with self.assertRaisesRegex(ValueError, "move one to the other"):
                    layer(*arguments)

    @needs_card
    def test_the_layer_moves_between_devices(self):
        cpu = LinearSoftmax(16, 300, 40, drawn=20, seed=1, products="float32")
        x, target = rows_of(40, 16, 300)
        self.step(cpu, x, target, torch.arange(40))
        card = copy.deepcopy(cpu).cuda()
        other = LinearSoftmax(16, 300, 40, drawn=20, products="float32", device="cuda")
        other.load_state_dict(cpu.state_dict())
        for layer in (cpu, card, other):
            self.step(layer, x, target, torch.arange(40))
        self.same_state(state_of(cpu), state_of(card), 5e-6)
        self.same_state(state_of(cpu), state_of(other), 5e-6)
        back = card.cpu()
        for layer in (cpu, back):
            self.step(layer, x, target, torch.arange(40))
        self.same_state(state_of(cpu), state_of(back), 1e-5)

    @needs_card
    def test_nothing_waits_and_nothing_is_allocated_after_the_first_step(self):
        for draw in ("uniform", "counted"):
            for reduction in ("mean", "none"):
                layer = self.layer(64, 3000, 500, drawn=256, draw=draw, products="bfloat16", reduction=reduction)
                x, target = rows_of(500, 64, 3000)
                x, target, index = x.cuda().requires_grad_(), target.cuda(), torch.arange(500, device="cuda")

                def step():
                    x.grad = None
                    layer(x, target, index).sum().backward()
                for _ in range(3):
                    step()
                torch.cuda.synchronize()
                before = torch.cuda.memory_stats()
                torch.cuda.set_sync_debug_mode("error")
                try:
                    for _ in range(5):
                        step()
                        layer.step *= 0.9
                finally:
                    torch.cuda.set_sync_debug_mode("default")
                after = torch.cuda.memory_stats()
                # No memory of the card, and no more of PyTorch's than before.
                for name in ("segment.all.allocated", "reserved_bytes.all.current"):
                    self.assertEqual(after[name], before[name], name)
                self.assertLessEqual(after["allocated_bytes.all.current"], before["allocated_bytes.all.current"])

    @needs_card
    def test_autocast_and_loss_scale(self):
        layer, encoder = self.layer(64, 3000, 500, drawn=256, products=None, step=0.01), nn.Linear(32, 64).cuda()
        optimizer = torch.optim.Adam(encoder.parameters(), lr=0.003)
        x, target = rows_of(500, 32, 50)
        x, target, index = x.cuda(), target.cuda(), torch.arange(500, device="cuda")
        for dtype in (torch.bfloat16, torch.float16):
            scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
            before = None
            for _ in range(60):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=dtype):
                    hidden = encoder(x)
                    self.assertEqual(hidden.dtype, dtype)
                    loss = layer(hidden, target, index)
                self.assertEqual(loss.dtype, torch.float32)
                before = loss.item() if before is None else before
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            self.assertLess(loss.item(), before)
        layer.check()

    @needs_card
    def test_graphs_replay_with_new_draws(self):
        x, target = rows_of(500, 64, 50)
        target = 60 * target
        x, target, index = x.cuda().requires_grad_(), target.cuda(), torch.arange(500, device="cuda")
        ends = []
        for captured in (False, True):
            layer = self.layer(64, 3000, 500, drawn=256, products="float32", seed=3, step=0.01)
            with torch.no_grad():
                layer.weight.copy_(torch.linspace(-0.1, 0.1, 64 * 3000).sin().reshape(3000, 64))
                layer.bias.zero_()

            def step():
                x.grad = None
                loss = layer(x, target, index)
                loss.backward()
                return loss
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            losses = []
            if captured:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = step()
                for number in range(20):
                    if number == 10:
                        layer.step = 0.001
                    graph.replay()
                    losses.append(loss.item())
            else:
                for number in range(20):
                    if number == 10:
                        layer.step = 0.001
                    losses.append(step().item())
            layer.check()
            self.assertEqual(layer.counters[0].item(), 23)
            ends.append((losses, state_of(layer)))
        for a, b in zip(ends[0][0], ends[1][0]):
            self.assertLess(abs(a - b), 1e-3 * abs(a))
        self.same_state(ends[0][1], ends[1][1], 1e-2)
        self.assertLess(ends[1][0][-1], ends[1][0][0])

    @needs_card
    def test_make_graphed_callables(self):
        layer = self.layer(64, 3000, drawn=256, products="bfloat16", step=0.01)
        x, target = rows_of(500, 64, 50)
        x, target = x.cuda().requires_grad_(), target.cuda()

        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                return self.layer(x, target)
        graphed = torch.cuda.make_graphed_callables(Step(), (x.detach().clone().requires_grad_(),))
        begun = layer.counters[0].item()
        first = None
        for _ in range(30):
            x.grad = None
            loss = graphed(x)
            loss.backward()
            first = loss.item() if first is None else first
        self.assertEqual(layer.counters[0].item(), begun + 30)
        self.assertLess(loss.item(), first)
        self.assertTrue(x.grad.isfinite().all() and x.grad.abs().max() > 0)


if __name__ == "__main__":
    unittest.main()
