"""Shared by the tests of the Python package's input: finding the package, small data, what an action raises.

TRUEMAX_PACKAGE  the folder that holds the package (default: build/python of this repository)
"""
import os
import sys
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))

import numpy as np
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from truemax import SoftmaxClassifier

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(60, 5).astype(np.float32)
Y = np.arange(60) % 3
TEXTS = np.array(["a", "b", "c"])[Y]


def quick(**parameters):
    return SoftmaxClassifier(**{"method": "implicit", "epochs": 2, "step": 1.0, "n_jobs": 1, **parameters})


def with_value(value, dtype=None):
    x = X.astype(dtype or X.dtype)
    x[3, 2] = value
    return x


def raised(action):
    """What an action raises, None if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataConversionWarning)
        try:
            action()
        except Exception as error:
            return error
    return None


def require_finite(probabilities):
    assert np.all(np.isfinite(probabilities)), "probabilities are not finite"
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-6), "probabilities do not sum to 1"
