"""The log-loss of a model. Every contestant is judged by this function, from its weights or probabilities, never by
what it reports."""
import numpy as np

CHUNK_BYTES = 256e6


def log_loss(x, y, scores, classes):
    """Mean of -log p(y|x) over the rows, and the mean over the rows of the sum of exp(scores).

    x: CSR rows. y: labels 0..classes-1. scores: a function from rows to their scores [n, classes], logarithms of
    probabilities. They are normalised here; the returned sum tells whether they already were. Adds in float64."""
    chunk = max(1, int(CHUNK_BYTES / (8 * classes)))
    loss, mass = 0.0, 0.0
    for begin in range(0, x.shape[0], chunk):
        z = np.asarray(scores(x[begin:begin + chunk]))
        of_label = z[np.arange(len(z)), y[begin:begin + chunk]].astype(float)
        top = z.max(axis=1)
        z = z - top[:, None]
        np.exp(z, out=z)
        log_sum = np.log(z.sum(axis=1, dtype=float)) + top
        loss += float((log_sum - of_label).sum())
        mass += float(np.exp(np.minimum(log_sum, 50)).sum())
    return loss / x.shape[0], mass / x.shape[0]


def linear(weights, intercept=None):
    """Scores of a linear model with weights [features, classes]."""
    def scores(x):
        z = x @ weights
        return z if intercept is None else z + intercept
    return scores


def log_sigmoid(z):
    return np.minimum(z, 0) - np.log1p(np.exp(-np.abs(z)))
