//! Times as text in RFC 3339.

use domain::Timestamp;

use crate::decimal;

/// `time` in UTC with microseconds, as in `2027-01-15T08:00:00.000001Z`.
pub(crate) fn text(time: Timestamp) -> String {
    let mut out = Vec::with_capacity(27);
    put(&mut out, time);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends that text.
pub(crate) fn put(out: &mut Vec<u8>, time: Timestamp) {
    let seconds = time.seconds();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = time.0 % 1_000_000;
    for (number, digits, behind) in [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (hour, 2, b':'),
        (minute, 2, b':'),
        (second, 2, b'.'),
        (micros, 6, b'Z'),
    ] {
        decimal::put(out, number, digits);
        out.push(behind);
    }
}

/// Year, month and day, `days` after 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of its year, and in eras of
/// 400 years, which all have the same number of days.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let first_of_year = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
    let day_of_year = day_of_era - first_of_year;
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let is_next_year = months_from_march >= 10;
    let month = if is_next_year { months_from_march - 9 } else { months_from_march + 3 };
    (400 * era + year_of_era + u64::from(is_next_year), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_microseconds() {
        for (seconds, micros, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, 1, "2000-02-28T23:59:59.000001Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, 999_999, "2024-02-29T23:59:59.999999Z"),
            (1_800_000_000, 0, "2027-01-15T08:00:00.000000Z"),
            (4_107_542_399, 0, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(text(Timestamp(seconds * 1_000_000 + micros)), expected);
        }
    }
}
