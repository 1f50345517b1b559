"""Values of many rounds as one text."""

import statistics


def spread(values, digits=0):
    """Median, and least and most in brackets."""
    ordered = sorted(values)
    return f"{statistics.median(values):,.{digits}f} ({ordered[0]:,.{digits}f} to {ordered[-1]:,.{digits}f})"
