"""What scikit-learn calls differently in its versions."""
from __future__ import annotations

from typing import Any

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before 1.6
    def validate_data(_estimator: Any, /, X: Any = "no_validation", **how: Any) -> Any:
        return _estimator._validate_data(X, **how)

__all__ = ["validate_data"]
