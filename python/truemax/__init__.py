"""truemax: softmax models with ten to millions of classes, trained to the true maximum-likelihood optimum.

    from truemax import SoftmaxClassifier
    model = SoftmaxClassifier().fit(X, y)        # NumPy, SciPy sparse or pandas; nothing to tune
    model.predict_proba(X_new)

LanguageModel learns from plain text, LinkPredictor from triples, truemax.torch.LinearSoftmax is the last layer of a
network, truemax.plot draws learning curves and reliability diagrams.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._library import DivergenceError, TruemaxError, version as _version

if TYPE_CHECKING:
    from .classifier import SoftmaxClassifier
    from .files import load
    from .language import LanguageModel
    from .links import LinkPredictor

__version__ = _version()
__all__ = ["DivergenceError", "LanguageModel", "LinkPredictor", "SoftmaxClassifier", "TruemaxError", "load", "plot",
           "torch"]

# Imported when they are first used: `import truemax` needs neither scikit-learn, matplotlib nor PyTorch.
_HOMES = {"SoftmaxClassifier": "classifier", "LanguageModel": "language", "LinkPredictor": "links", "load": "files"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("plot", "torch"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'truemax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
