"""Log-loss against the step, one panel per data set, drawn as SVG from run logs. Follows the reader's light or dark
mode."""
import html
import json
import math
import os

WIDTH, HEIGHT, LEFT, TOP, GAP = 400, 300, 56, 82, 76
# Line, light and dark colour, and mark of a point, so that lines differ without colours too.
LINES = {"prox": ("#2a78d6", "#3987e5", "circle"), "implicit": ("#eb6834", "#d95926", "square"),
         "umax": ("#1baf7a", "#199e70", "triangle"), "scent": ("#4a3aa7", "#9085e9", "diamond"),
         "importance": ("#e34948", "#e66767", "ring")}
STYLE = """
  svg { --ink: #1d1d1b; --soft: #6b6a66; --grid: #e4e3df; --paper: #ffffff; font: 12px system-ui, sans-serif }
  text { fill: var(--ink) } .soft { fill: var(--soft) } .grid { stroke: var(--grid); stroke-width: 1 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round } .off { fill: none; stroke-width: 2 }
"""


def read_log(path):
    """(method, data set, step, last train log-loss or None if it diverged) of a run."""
    with open(path, encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    config = events[0]["config"]
    evaluations = [event for event in events if event["event"] == "evaluate"]
    done = events[-1]["event"] == "end" and not events[-1].get("diverged", False)
    loss = evaluations[-1]["train"]["log_loss"] if evaluations and done else None
    return config["method"], os.path.basename(os.path.dirname(config["train"])), config["step"], loss


def mark(kind, x, y, color):
    shapes = {"circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>',
              "ring": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="var(--paper)" stroke="{color}" stroke-width="2"/>',
              "square": f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{color}"/>',
              "triangle": f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z" fill="{color}"/>',
              "diamond": f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{color}"/>'}
    return shapes[kind]


def power(value):
    """A power of ten as text: 0.01, 100, 1e5."""
    return f"{value:g}" if 1e-3 <= value < 1e5 else f"1e{round(math.log10(value))}"


class Panel:
    def __init__(self, left, steps, low, high):
        self.left, self.steps, self.low, self.high = left, steps, low, high

    def x(self, step):
        first, last = math.log10(min(self.steps)), math.log10(max(self.steps))
        return self.left + WIDTH * (math.log10(step) - first) / (last - first)

    def y(self, loss):
        """Losses above the panel are put at its upper edge."""
        share = (math.log10(loss) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return TOP + HEIGHT * (1 - min(share, 1))

    def axes(self, title):
        out = [f'<text x="{self.left}" y="{TOP - 12}" font-weight="600">{title}</text>']
        exponents = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
        ticks = [d * 10.0**e for e in exponents for d in ((1, 2, 5) if len(exponents) < 3 else (1,))]
        for tick in (tick for tick in ticks if tick <= self.high):
            y = self.y(tick)
            out.append(f'<path class="grid" d="M{self.left} {y:.1f}h{WIDTH}"/>'
                       f'<text class="soft" x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{power(tick)}</text>')
        for step in self.steps:
            out.append(f'<text class="soft" x="{self.x(step):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">'
                       f"{power(step)}</text>")
        out.append(f'<text class="soft" x="{self.left + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">step</text>')
        return out

    def line(self, name, points):
        """`points`: (step, loss or None). Points above the panel and diverged runs are open crosses at the upper
        edge."""
        color, kind = f"var(--{name})", LINES[name][2]
        places = [(self.x(step), TOP, True) if loss is None or loss > self.high else (self.x(step), self.y(loss), False)
                  for step, loss in points]
        # Lines lead to the upper edge and come back from it, but do not run along it.
        pieces = [f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" for a, b in zip(places, places[1:]) if not (a[2] and b[2])]
        out = [f'<path class="line" stroke="{color}" d="{"".join(pieces)}"/>']
        for x, y, off in places:
            cross = f'<path class="off" stroke="{color}" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'
            out.append(cross if off else mark(kind, x, y, color))
        return out


def draw(logs, path, title):
    """Draws the runs of `logs` into `path`; methods in the order of LINES, data sets in that of the logs."""
    runs = [read_log(log) for log in logs]
    unknown = {method for method, *_ in runs} - set(LINES)
    if unknown:
        raise ValueError(f"no line for {', '.join(sorted(unknown))}; add it to LINES of bench/step_plot.py")
    title = html.escape(title)
    sets = list(dict.fromkeys(data for _, data, _, _ in runs))
    steps = sorted({step for _, _, step, _ in runs})
    width = LEFT + len(sets) * (WIDTH + GAP)
    colors = ["; ".join(f"--{name}: {shades[dark]}" for name, shades in LINES.items()) for dark in (0, 1)]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 52}" role="img">',
           f"<title>{title}</title><style>{STYLE}  svg {{ {colors[0]} }}\n",
           "  @media (prefers-color-scheme: dark) { svg { --ink: #f0efec; --soft: #a3a29d; --grid: #3a3936; --paper: #1a1a19; "
           f"{colors[1]} }} }}</style>", '<rect width="100%" height="100%" fill="var(--paper)"/>',
           f'<text x="{LEFT}" y="20" font-weight="600">{title}</text>']
    x = LEFT
    for name in (name for name in LINES if any(method == name for method, *_ in runs)):
        out.append(f'<path class="line" stroke="var(--{name})" d="M{x} 38h24"/>'
                   + mark(LINES[name][2], x + 12, 38, f"var(--{name})") + f'<text x="{x + 30}" y="42">{name}</text>')
        x += 50 + 7 * len(name)
    out.append(f'<path class="off" stroke="var(--soft)" d="M{x + 4} 34l8 8m0 -8l-8 8"/>'
               f'<text class="soft" x="{x + 18}" y="42">above 10, or diverged</text>')
    for i, data in enumerate(sets):
        least = min(loss for _, of, _, loss in runs if of == data and loss is not None)
        panel = Panel(LEFT + i * (WIDTH + GAP), steps, 10 ** math.floor(math.log10(least)), 10.0)
        out += panel.axes(html.escape(data))
        for name in reversed(LINES):  # the first is drawn on top
            out += panel.line(name, sorted((step, loss) for method, of, step, loss in runs if (method, of) == (name, data)))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>", ""]))
