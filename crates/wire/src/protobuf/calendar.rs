//! Days of the Gregorian calendar as numbers, 1970-01-01 being day 0.
//!
//! Years are counted from March, so that the leap day is the last day of the year; an era is the
//! 400 years after which the calendar repeats.

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_UNIX: i64 = 719_468;

/// The number of the day, or none if there is no such day.
pub(super) fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return None;
    }
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * DAYS_PER_ERA + day_of_era - DAYS_TO_UNIX)
}

/// Year, month and day of a day number.
pub(super) fn date_of_day(day_number: i64) -> (i64, i64, i64) {
    let since_march_0 = day_number + DAYS_TO_UNIX;
    let era = since_march_0.div_euclid(DAYS_PER_ERA);
    let day_of_era = since_march_0.rem_euclid(DAYS_PER_ERA);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_numbers() {
        assert_eq!(day_number(1970, 1, 1), Some(0));
        assert_eq!(day_number(2000, 2, 29), Some(11_016));
        assert_eq!(day_number(2026, 11, 15), Some(20_772));
        assert_eq!(day_number(1, 1, 1), Some(-719_162));
        assert_eq!(day_number(9999, 12, 31), Some(2_932_896));
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for (year, month, day) in
            [(2025, 2, 29), (1900, 2, 29), (2025, 13, 1), (2025, 0, 1), (2025, 4, 31), (2025, 1, 0)]
        {
            assert_eq!(day_number(year, month, day), None, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn every_day_of_ten_thousand_years_follows_the_one_before() {
        let mut before = (0, 12, 31);
        for number in -719_162..=2_932_896 {
            let (year, month, day) = date_of_day(number);
            assert_eq!(day_number(year, month, day), Some(number));
            assert!((year, month, day) > before, "{number}");
            before = (year, month, day);
        }
        assert_eq!(before, (9999, 12, 31));
    }
}
