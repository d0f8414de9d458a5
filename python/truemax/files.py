"""Models from files."""
from __future__ import annotations

import os
from typing import Any

from ._model import Model


def load(path: str | os.PathLike) -> Any:
    """The estimator of a model file, from Python or from the command line: SoftmaxClassifier, LanguageModel or
    LinkPredictor."""
    model = Model.load(path)
    encoder = model.metadata()["features"].get("encoder")
    if encoder in ("context", "cbow", "skipgram"):
        from .language import LanguageModel
        return LanguageModel._of_model(model)
    if encoder == "complex":
        from .links import LinkPredictor
        return LinkPredictor._of_model(model)
    from .classifier import SoftmaxClassifier
    return SoftmaxClassifier._of_model(model)
