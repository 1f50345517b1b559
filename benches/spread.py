"""Formats the values of many rounds."""

import statistics


def spread(values, digits=0):
    """Returns the median, with minimum and maximum in brackets."""
    ordered = sorted(values)
    return f"{statistics.median(values):,.{digits}f} ({ordered[0]:,.{digits}f} to {ordered[-1]:,.{digits}f})"
