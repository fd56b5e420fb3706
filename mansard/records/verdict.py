"""What times are worth: who won beyond the spread of both, and which results are too good to be true."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ..codegen.geometry import Device
from ..kernels import family_of
from ..machine import machine, roofline
from .trials import Trial

VENDOR_MARGIN = 1.03  # the vendor's routine must be faster by more than this; less is noise
DOUBTFUL = "doubtful"  # status of a trial that is faster than the device allows; it is never recorded
_QUARTILES_FROM = 4  # samples; of fewer the extremes count


def interval(seconds: Sequence[float]) -> tuple[float, float]:
    """Where the middle half of the samples lies; of few samples, where all of them lie."""
    if len(seconds) < _QUARTILES_FROM:
        return min(seconds), max(seconds)
    low, _, high = statistics.quantiles(seconds, n=4)
    return low, high


def vendor_wins(vendor: Trial | None, own: Trial | None) -> bool:
    """Whether the vendor's routine is faster by more than noise: the medians differ, and the samples do not overlap.
    Of trials for energy, joules decide."""
    if vendor is None or not vendor.seconds or not vendor.ok:
        return False
    if own is None or not own.seconds or not own.ok:
        return True
    clear = interval(vendor.samples)[1] < interval(own.samples)[0]
    return vendor.cost * VENDOR_MARGIN < own.cost and clear


def is_undecided(vendor: Trial | None, own: Trial | None) -> bool:
    """Whether the vendor's median is lower, but not by more than the samples spread: the kernel is taken then."""
    if vendor is None or own is None or not (vendor.ok and own.ok):
        return False
    return vendor.cost * VENDOR_MARGIN < own.cost and not vendor_wins(vendor, own)


def excess(trial: Trial, device: Device) -> roofline.Excess | None:
    """What is to be said of a trial above 105 % of the limit, by the ceilings known now; None without ceilings."""
    ceilings = machine.known(device)
    if not trial.ok or not ceilings.measured:
        return None
    return roofline.excess(family_of(trial.problem.operation).work.work(trial.problem), ceilings, trial.median)


def judged(trial: Trial, device: Device) -> Trial:
    """The trial; if it is faster than the device allows, as one that did not succeed and says so."""
    found = excess(trial, device)
    if found is None or not found.is_doubtful:
        return trial
    return replace(trial, status=DOUBTFUL, reason=f"{trial.config.get('VARIANT', '')}: {found}")


def was_doubtful(trial: Trial, device: Device) -> bool:
    """Whether a recorded trial was above 105 % of the limit of its day without a reason: the machine was busy then.

    A record has the limit of its day. The factor by which results may be above it does not depend on the day.
    """
    ceilings = machine.known(device)
    if not trial.percent or trial.percent <= 100 * roofline.TOLERANCE or not ceilings.measured:
        return False
    work = family_of(trial.problem.operation).work.work(trial.problem)
    seconds = roofline.time_bound(work, ceilings).seconds * 100 / trial.percent
    found = roofline.excess(work, ceilings, seconds)
    return found is not None and found.is_doubtful
