"""Losses and distances with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

import chainrule as cr


def reduced(values, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": lambda v: v}[reduction](values)


def loss(values):
    """A loss of two arrays, given its value for each element (or row)."""

    def call(x, y, *args, reduction="mean", weight=None, **options):
        found = values(x, y, *args, **options)
        return reduced(found if weight is None else found * weight, reduction)

    return call


def smooth_l1(x, y, beta=1.0):
    if beta == 0:
        return cr.absolute_error(x, y, "none")
    return cr.huber(x, y, beta, "none") / beta


def margin_ranking(x, y, target, margin=0.0, reduction="mean"):
    return reduced(np.maximum(-target * (x - y) + margin, 0), reduction)


def rows_and_labels(x, target):
    """Two axes, and one label a row, of PyTorch's arrays with or without a batch."""
    x = np.reshape(x, (1, -1)) if np.ndim(x) < 2 else x
    return x, np.reshape(target, (np.shape(x)[0], -1))


def multi_margin(x, target, p=1, margin=1.0, weight=None, reduction="mean"):
    rows, labels = rows_and_labels(x, target)
    count = np.shape(rows)[1]
    right = np.take_along_axis(rows, labels, 1)
    terms = np.maximum(margin - right + rows, 0) ** p
    terms = terms if weight is None else terms * np.take(weight, labels)
    terms = np.where(np.arange(count) == labels, 0, terms)
    found = np.sum(terms, axis=1) / count
    return reduced(found[0] if np.ndim(x) < 2 and reduction == "none" else found, reduction)


def multilabel_margin(x, target, reduction="mean"):
    rows, labels = rows_and_labels(x, target)
    count = np.shape(rows)[1]
    listed = np.cumsum(labels < 0, axis=1) == 0
    chosen = cr.one_hot(np.where(listed, labels, 0), count) * listed[..., None]
    is_target = np.max(chosen, axis=1) > 0
    right = np.take_along_axis(rows, np.where(listed, labels, 0), 1)
    terms = np.maximum(1 - (right[:, :, None] - rows[:, None, :]), 0)
    terms = np.where(listed[:, :, None] & ~is_target[:, None, :], terms, 0)
    found = np.sum(terms, axis=(1, 2)) / count
    return reduced(found[0] if np.ndim(x) < 2 and reduction == "none" else found, reduction)


def multilabel_soft_margin(x, y, weight=None, reduction="mean"):
    terms = -(y * cr.log_sigmoid(x) + (1 - y) * cr.log_sigmoid(-x))
    return reduced(np.mean(terms if weight is None else terms * weight, axis=-1), reduction)


def pairwise_distance(x, y, p=2.0, eps=1e-6, keepdim=False):
    return np.linalg.vector_norm(x - y + eps, ord=p, axis=-1, keepdims=keepdim)


def triplet(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, **options):
    near, far = (pairwise_distance(anchor, other, p, eps) for other in (positive, negative))
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(np.maximum(near - far + margin, 0), options.get("reduction", "mean"))


def triplet_with_distance(anchor, positive, negative, distance_function=None, **options):
    return triplet(anchor, positive, negative, **options)


def cosine_similarity(x, y, dim=1, eps=1e-8):
    if np.ndim(x) == np.ndim(y) == 0:
        x, y = np.reshape(x, (1,)), np.reshape(y, (1,))
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    x, y = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
    lengths = (np.maximum(np.linalg.norm(v, axis=dim), eps) for v in (x, y))
    first, second = lengths
    return np.sum(x * y, axis=dim) / (first * second)


def cosine_embedding(x, y, target, margin=0.0, reduction="mean"):
    epsilon = 1e-12  # PyTorch's own constant for this loss
    squares = np.sum(x * x, -1) + epsilon, np.sum(y * y, -1) + epsilon
    cosine = np.sum(x * y, -1) / np.sqrt(squares[0] * squares[1])
    found = np.where(target == 1, 1 - cosine, np.maximum(cosine - margin, 0))
    return reduced(found, reduction)


def nll(x, target, weight=None, ignore_index=-100, reduction="mean"):
    moved = np.moveaxis(x, 1, -1) if np.ndim(x) > 1 else x
    keeps = target != ignore_index
    labels = np.where(keeps, target, 0)
    factors = (
        keeps
        * (np.ones(np.shape(x)[1 if np.ndim(x) > 1 else 0]) if weight is None else weight)[labels]
    )
    found = -np.take_along_axis(moved, labels[..., None], -1)[..., 0] * factors
    return np.sum(found) / np.sum(factors) if reduction == "mean" else reduced(found, reduction)


def gaussian_nll(x, target, variance, full=False, eps=1e-6, reduction="mean"):
    if np.ndim(variance) != np.ndim(x):
        variance = variance[..., None]
    kept = np.where(variance < eps, eps, variance)
    variance = variance + cr.stop_gradient(kept - variance)  # PyTorch's gradient passes the bound
    found = 0.5 * (np.log(variance) + (x - target) ** 2 / variance)
    return reduced(found + 0.5 * np.log(2 * np.pi) if full else found, reduction)


def hinge_embedding(x, target, margin=1.0, reduction="mean"):
    near = np.where(target != -1, x, 0)
    return reduced(near + np.where(target != 1, np.maximum(margin - x, 0), 0), reduction)


def poisson_nll(x, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    found = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    if full:
        stirling = target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target)
        found = found + np.where(target <= 1, 0, stirling)
    return reduced(found, reduction)


def kl_div(x, target, reduction="mean", log_target=False):
    if reduction == "batchmean":
        return kl_div(x, target, "sum", log_target) / np.shape(x)[0]
    return cr.kl_divergence(x, target, reduction, log_target=log_target)


def norm_of(x, p, axis):
    if p == 0:
        return np.sum(np.where(x != 0, 1.0, 0.0), axis=axis)
    return np.linalg.vector_norm(x, ord=p, axis=axis)


def cdist(x, y, p=2.0, compute_mode=None):
    return norm_of(x[..., :, None, :] - y[..., None, :, :], p, -1)


def pdist(x, p=2.0):
    rows, columns = np.triu_indices(np.shape(x)[0], 1)
    return norm_of(x[rows] - x[columns], p, -1)


def dist(x, y, p=2):
    difference = x - y
    return norm_of(np.reshape(difference, (-1,)), p, 0)


TABLE = {
    f"nn.functional.{name}": value
    for name, value in {
        "l1_loss": loss(lambda x, y: cr.absolute_error(x, y, "none")),
        "smooth_l1_loss": loss(smooth_l1),
        "soft_margin_loss": loss(lambda x, y: np.log1p(np.exp(-y * x))),
        "kl_div": kl_div,
        "margin_ranking_loss": margin_ranking,
        "multi_margin_loss": multi_margin,
        "multilabel_margin_loss": multilabel_margin,
        "multilabel_soft_margin_loss": multilabel_soft_margin,
        "triplet_margin_loss": triplet,
        "triplet_margin_with_distance_loss": triplet_with_distance,
        "cosine_similarity": cosine_similarity,
        "cosine_embedding_loss": cosine_embedding,
        "nll_loss": nll,
        "gaussian_nll_loss": gaussian_nll,
        "hinge_embedding_loss": hinge_embedding,
        "poisson_nll_loss": poisson_nll,
        "pairwise_distance": pairwise_distance,
        "pdist": pdist,
    }.items()
} | {"cdist": cdist, "dist": dist}
