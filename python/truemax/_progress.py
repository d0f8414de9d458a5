"""Progress of a run: one line on a terminal, a bar in a notebook, nothing in pipes."""
from __future__ import annotations

import html
import sys
import time
from typing import Any, TextIO


def _in_notebook() -> bool:
    """A Jupyter kernel; IPython on a terminal is none."""
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _clock(seconds: float) -> str:
    seconds = int(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{seconds // 60}:{seconds % 60:02d}"


def _rate(per_second: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if per_second >= size:
            return f"{per_second / size:.1f} {unit}steps/s"
    return f"{per_second:.0f} steps/s"


class Progress:
    """Shows the events of a run. `write` gets a line of text and how much is done, from 0 to 1."""

    def __init__(self) -> None:
        self._phase, self._began, self._loss = "", time.monotonic(), ""

    def _start(self, phase: str) -> None:
        self._phase, self._began = phase, time.monotonic()

    def update(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "trying":
            self._start(f"trial {event['number']} ({event['about']})")
            self.write(self._phase, 0.0)
        elif kind == "trial":
            if event.get("log_loss") is not None:
                self._loss = f"log-loss {event['log_loss']:.4f}"
        elif kind == "fit":
            self._start("fit")
        elif kind in ("step", "trial_step"):
            if kind == "step" and self._phase != "fit":
                self._start("fit")
            self._steps(event)
        elif kind == "evaluating":
            self.write(f"evaluating  {100 * event['rows'] / max(event['of'], 1):.0f}%",
                       event["rows"] / max(event["of"], 1))
        elif kind == "evaluate":
            figures = [f"{rows} {event[rows]['log_loss']:.4f}" for rows in ("train", "valid")
                       if event.get(rows) and event[rows].get("log_loss") is not None]
            self._loss = "log-loss " + ", ".join(figures) if figures else self._loss
            self.evaluated(event["epoch"], self._loss)

    def _steps(self, event: dict[str, Any]) -> None:
        steps, of = event["steps"], event.get("of") or 0
        seconds = max(time.monotonic() - self._began, 1e-9)
        parts = [self._phase, _rate(steps / seconds), self._loss]
        share = min(steps / of, 1.0) if of else 0.0
        if of and steps:
            parts.insert(1, f"{100 * share:.0f}%")
            parts.append(f"{_clock(seconds * (1 - share) / share)} left")
        self.write("  ".join(filter(None, parts)), share)

    def write(self, text: str, share: float) -> None:
        raise NotImplementedError

    def evaluated(self, epoch: int, text: str) -> None:
        self.write(f"epoch {epoch}  {text}", 1.0)

    def close(self) -> None:
        pass


class Terminal(Progress):
    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out, self._shown = out, 0

    def write(self, text: str, share: float) -> None:
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)

    def close(self) -> None:
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._out.flush()
            self._shown = 0


class Notebook(Progress):
    def __init__(self) -> None:
        super().__init__()
        from IPython.display import HTML, display
        self._html = HTML
        self._display = display(HTML(""), display_id=True)

    def write(self, text: str, share: float) -> None:
        self._display.update(self._html(
            f'<progress max="1" value="{share:.4f}" style="vertical-align:middle"></progress> '
            f"<code>{html.escape(text)}</code>"))

    def close(self) -> None:
        self._display.update(self._html(f"<code>{html.escape(self._loss)}</code>" if self._loss else ""))


class Lines(Progress):
    """verbose=1: a line for each trial and evaluation, for logs."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    def write(self, text: str, share: float) -> None:
        pass

    def update(self, event: dict[str, Any]) -> None:
        super().update(event)
        if event["event"] == "trial":
            step, ridge = event.get("step"), event.get("ridge")
            self._line(f"{self._phase}  step {step:.4g}  ridge {ridge:.4g}  {self._loss}")

    def evaluated(self, epoch: int, text: str) -> None:
        self._line(f"epoch {epoch}  {text}")

    def _line(self, text: str) -> None:
        print(f"[truemax] {text}", file=self._out, flush=True)


def make_progress(verbose: Any) -> Progress | None:
    if verbose is not None and not verbose:
        return None
    if _in_notebook():
        return Notebook()
    if verbose is None:
        return Terminal(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
    return Lines(sys.stdout)
