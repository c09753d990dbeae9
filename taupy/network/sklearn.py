"""scikit-learn, as of 1.8: estimators that are fitted and predict, and pipelines' named steps."""

from __future__ import annotations

_PIPELINE = "sklearn/pipeline.py"

LAYER_KIND = "estimator"
LAYERS = (
    *("sklearn/base.py:_fit_context.<locals>.decorator.<locals>.wrapper",),
    *("sklearn/utils/_set_output.py:_wrap_method_output.<locals>.wrapped",),
    # For estimators of the program's own, which neither of these stands around.
    *(f"{_PIPELINE}:{name}" for name in ("_fit_one", "_fit_transform_one", "_transform_one")),
    *(f"sklearn/*:*.{name}" for name in ("predict", "predict_proba", "decision_function")),
    *("sklearn/*:*.score", "sklearn/*:*.inverse_transform"),
)
PLUMBING = ()
