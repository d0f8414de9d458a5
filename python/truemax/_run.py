"""A training run: options, events, interrupts."""
from __future__ import annotations

import json
import numbers
import signal
import threading
import warnings
from typing import Any, Callable, Iterable

import numpy as np

from . import _library as lib
from ._data import Data
from ._model import Model
from ._names import python_words
from ._progress import Progress

Callback = Callable[[dict], Any]


class Run(lib.Handle):
    free = "tmx_run_free"


class Result:
    """What a run left: its model, its evaluations and what it used."""

    def __init__(self, model: Model, about: dict[str, Any], history: list[dict], trials: list[dict]) -> None:
        self.model, self.about, self.history, self.trials = model, about, history, trials


class Plan(dict):
    """What fit() would do, from `plan()`: a dict with "plan" (solver, options, what trials look for, memory, seconds),
    "not_taken" (solvers and why they are not taken) and "notes". Printed, it is the text of `truemax plan`."""

    def __str__(self) -> str:
        return "\n".join([self["text"].rstrip("\n"), *(f"note    {note}" for note in self["notes"])])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # notebooks
        printer.text(str(self))


def made(data: Data, options: Iterable[tuple[str, str]], valid: Data | None, start: Model | None) -> Run:
    pointer = None if valid is None else valid.pointer
    begin = None if start is None else start.pointer
    return lib.made(Run, lib.load().tmx_run_create, data.pointer, pointer, begin, *lib.option_list(options))


def plan_of(run: Run) -> Plan:
    plan = Plan(lib.kept_json(lib.load().tmx_run_plan, run.pointer))
    plan["text"] = "".join(python_words(line) for line in plan["text"].splitlines(keepends=True))
    plan["not_taken"] = {solver: python_words(why) for solver, why in plan["not_taken"].items()}
    plan["notes"] = [python_words(note) for note in plan["notes"]]
    return plan


class _Interrupts:
    """While a run trains, SIGINT stops it at a step boundary. Afterwards the handler that was there gets its turn.

    An exception raised inside a callback of ctypes would be lost, so the handler that raises must wait.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: Any = None
        self._came: tuple | None = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        self._came = (number, frame)
        self._stop()

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def pass_on(self) -> None:
        if self._came is not None:
            came, self._came = self._came, None
            self._before(*came)


_FIGURES = ("log_loss", "log_loss_error_bar", "error", "calibration_error", "perplexity", "mrr",
            "hits_at_1", "hits_at_3", "hits_at_10")


def flat_evaluation(event: dict[str, Any]) -> dict[str, Any]:
    """An evaluation as one flat entry of `history_`."""
    entry = {"epoch": event["epoch"], "steps": event["steps"], "seconds": event["train_seconds"]}
    for rows in ("train", "valid", "test"):
        figures = event.get(rows) or {}
        entry.update({f"{rows}_{name}": figures[name] for name in _FIGURES if figures.get(name) is not None})
        entry.update({f"{rows}_precision_at_{k}": share for k, share in (figures.get("precision_at") or {}).items()})
    if event.get("best"):
        entry["best"] = True
    return entry


def train(data: Data, options: Iterable[tuple[str, str]], *, valid: Data | None = None, start: Model | None = None,
          callbacks: Iterable[Callback] = (), progress: Progress | None = None) -> tuple[Result, Callable[[], None]]:
    """Trains. The second result raises what stopped the run early, if anything did: call it once the caller has kept
    the model."""
    library = lib.load()
    run = made(data, options, valid, start)
    tell(lib.kept_json(library.tmx_run_plan, run.pointer)["notes"], level=4)
    history: list[dict] = []
    trials: list[dict] = []
    raised: list[BaseException] = []
    listeners = list(callbacks)

    def on_event(text: bytes, context: Any) -> int:
        try:
            event = json.loads(text)
            if event["event"] == "evaluate":
                history.append(flat_evaluation(event))
            elif event["event"] == "trial":
                trials.append({k: v for k, v in event.items() if k != "event"})
            if progress is not None:
                progress.update(event)
            # Every callback sees every event, also after one that stops.
            return int(any([bool(listener(event)) for listener in listeners]))
        except BaseException as error:  # comes out of fit(), once the run has stopped
            raised.append(error)
            return 1

    function = lib.CALLBACK(on_event)
    interrupts = _Interrupts(lambda: library.tmx_run_stop(run.pointer))
    diverged: lib.DivergenceError | None = None
    try:
        with interrupts:
            try:
                lib.check(library.tmx_run_train(run.pointer, function, None))
            except lib.DivergenceError as error:
                diverged = error
    except Exception:
        interrupts.pass_on()
        raise
    finally:
        if progress is not None:
            progress.close()
    result = Result(lib.made(Model, library.tmx_run_model, run.pointer),
                    lib.kept_json(library.tmx_run_json, run.pointer), history, trials)

    def raise_what_stopped() -> None:
        if raised:
            raise raised[0]
        interrupts.pass_on()
        if diverged is not None:
            raise diverged

    return result, raise_what_stopped


def option_text(name: str, value: Any) -> str:
    """A value of Python as the command line writes it."""
    if isinstance(value, (bool, np.bool_)):
        return "on" if value else "off"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} is {value!r}; give a number, a text, True or False")


def thread_count(n_jobs: Any) -> int:
    """0: all cores."""
    if n_jobs is None or n_jobs == -1:
        return 0
    if isinstance(n_jobs, (bool, np.bool_)) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs is {n_jobs!r}; give a whole number, or None for all cores")
    if n_jobs < 1:
        raise ValueError(f"n_jobs is {n_jobs}; give a number from 1 up, or -1 for all cores")
    return int(n_jobs)


def tell(notes: Iterable[str], level: int = 3) -> None:
    for note in notes:
        warnings.warn(python_words(note), UserWarning, stacklevel=level)
