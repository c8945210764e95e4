"""Kernel of the block bootstrap: weighted AP and AUC."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel


@kernel
def weighted_precision(positive, block, last, weights):
    """AP and AUC of examples sorted by falling score, under each row of weights.

    Args:
        positive: whether each example (m,) is a positive.
        block: the block of each.
        last: whether each is the last of its score; equal scores are one threshold.
        weights: (draws, blocks), how often each block counts.

    Returns:
        (draws, 2); NaN if a draw has no positive or no negative.
    """
    draws = weights.shape[0]
    counts = np.zeros((weights.shape[1], 2))
    for i in range(len(block)):
        counts[block[i], 0 if positive[i] else 1] += 1
    found = np.full((draws, 2), np.nan)
    for k in range(draws):
        positives = negatives = 0.0
        for b in range(len(counts)):
            positives += weights[k, b] * counts[b, 0]
            negatives += weights[k, b] * counts[b, 1]
        if positives == 0 or negatives == 0:
            continue
        above_positive = above_negative = 0.0  # at or above the threshold
        new_positive = new_negative = 0.0  # at it
        precision = area = 0.0
        for i in range(len(block)):
            if positive[i]:
                new_positive += weights[k, block[i]]
            else:
                new_negative += weights[k, block[i]]
            if last[i]:
                above_positive += new_positive
                above_negative += new_negative
                if new_positive > 0:
                    precision += new_positive * above_positive / (above_positive + above_negative)
                    area += new_positive * (negatives - above_negative + new_negative / 2)
                new_positive = new_negative = 0.0
        found[k, 0] = precision / positives
        found[k, 1] = area / (positives * negatives)
    return found
