"""What the samples of a long run say: does anything grow that should not?"""

MIB = 1024 * 1024

# After the first hour: memory may grow by so much an hour, descriptors by so many in all, and the
# 99th percentile of a publish by so large a part of what it was.
SLOPE_MIB_PER_HOUR_MAX = 1.0
FDS_MORE_MAX = 8
DRIFT_MAX = 0.2
# Runs of less than this are too short for a slope or a drift: only jumps show.
LONG_SECONDS = 2 * 3600
SHORT_GROWTH_MIB_MAX = 24
# Ends of a run that are compared, as parts of it; what is before the first is warming up.
WARM_UP = 0.3
LONG_WARM_UP_SECONDS = 3600


class Sample:
    def __init__(self, at, rss, fds, latencies):
        self.at = at
        self.rss = rss
        self.fds = fds
        self.latencies = latencies


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def median(values):
    return percentile(values, 0.5)


def slope(points):
    """Least squares, in y for each x."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


class Verdict:
    """The figures of a run and what is wrong with them."""

    def __init__(self, samples):
        lasted = samples[-1].at - samples[0].at
        is_long = lasted >= LONG_SECONDS
        warm_up = LONG_WARM_UP_SECONDS if is_long else lasted * WARM_UP
        settled = [sample for sample in samples if sample.at - samples[0].at >= warm_up]
        third = max(1, len(settled) // 3)
        first, last = settled[:third], settled[-third:]
        self.seconds = lasted
        self.mib_per_hour = slope([(one.at / 3600, one.rss / MIB) for one in settled])
        self.growth_mib = (median([one.rss for one in last]) - median([one.rss for one in first])) / MIB
        self.fds_more = max(one.fds for one in last) - max(one.fds for one in first)
        self.p99_first = percentile([value for one in first for value in one.latencies], 0.99)
        self.p99_last = percentile([value for one in last for value in one.latencies], 0.99)
        self.faults = []
        if is_long and self.mib_per_hour >= SLOPE_MIB_PER_HOUR_MAX:
            self.faults.append(f"memory grows by {self.mib_per_hour:.2f} MiB an hour")
        if not is_long and self.growth_mib > SHORT_GROWTH_MIB_MAX:
            self.faults.append(f"memory grew by {self.growth_mib:.1f} MiB in {lasted:.0f} s")
        if self.fds_more > FDS_MORE_MAX:
            self.faults.append(f"{self.fds_more} more descriptors are open at the end")
        if is_long and self.p99_last > self.p99_first * (1 + DRIFT_MAX):
            self.faults.append(f"p99 went from {self.p99_first:.4f} s to {self.p99_last:.4f} s")

    def __str__(self):
        return (
            f"{self.seconds:.0f} s: memory {self.growth_mib:+.1f} MiB "
            f"({self.mib_per_hour:+.2f} MiB an hour), descriptors {self.fds_more:+d}, "
            f"p99 of a publish {self.p99_first * 1000:.1f} ms, then {self.p99_last * 1000:.1f} ms"
        )
