"""BaseEstimator of scikit-learn, or what the estimators need of it where scikit-learn is not installed."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
else:
    try:
        from sklearn.base import BaseEstimator
    except ImportError:
        class BaseEstimator:
            @classmethod
            def _get_param_names(cls) -> list[str]:
                return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                """The parameters by name."""
                return {name: getattr(self, name) for name in self._get_param_names()}

            def set_params(self, **params: Any) -> BaseEstimator:
                """Sets parameters by name."""
                known = self._get_param_names()
                for name in params:
                    if name not in known:
                        raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                                         f"{known!r}.")
                for name, value in params.items():
                    setattr(self, name, value)
                return self

            def __repr__(self) -> str:
                defaults = inspect.signature(type(self).__init__).parameters
                changed = [f"{name}={value!r}" for name, value in self.get_params().items()
                           if repr(value) != repr(defaults[name].default)]
                return f"{type(self).__name__}({', '.join(changed)})"
