//! What objects are called: `<prefix><time>_<unique><suffix>`.

use std::fmt;

use super::CloudStorage;
use crate::error::Invalid;
use crate::limits::DATETIME_FORMAT_BYTES_MAX;
use crate::time::Timestamp;

/// How the time stands in names where the subscription does not say.
const DEFAULT: &str = "YYYY-MM-DDThh:mm:ss+00:00";

/// What stands for a part of the time, and which part: no format has one of them twice.
const MATCHERS: [(&str, Part); 10] = [
    // The longer of two that begin alike comes first.
    ("YYYY", Part::Year),
    ("YY", Part::YearOfCentury),
    ("MM", Part::Month),
    ("DD", Part::Day),
    ("hh", Part::Hour),
    ("mm", Part::Minute),
    ("ss", Part::Second),
    ("T", Part::T),
    ("Z", Part::Zone("Z")),
    ("+00:00", Part::Zone("+00:00")),
];

/// What every format must have.
const NEEDED: [(&str, &[Part]); 6] = [
    ("YYYY or YY", &[Part::Year, Part::YearOfCentury]),
    ("MM", &[Part::Month]),
    ("DD", &[Part::Day]),
    ("hh", &[Part::Hour]),
    ("mm", &[Part::Minute]),
    ("ss", &[Part::Second]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    YearOfCentury,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    T,
    Zone(&'static str),
    Separator(char),
}

impl Part {
    /// Whether both say the same of the time, so that only one may be there.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Separator(_), _) => false,
            (Self::Year | Self::YearOfCentury, Self::Year | Self::YearOfCentury)
            | (Self::Zone(_), Self::Zone(_)) => true,
            _ => self == other,
        }
    }
}

/// How the time stands in the names of objects: `YYYY` or `YY`, `MM`, `DD`, `hh`, `mm` and `ss`
/// once each, `T` and `Z` or `+00:00` at most once, and `-`, `_`, `:`, `/` between them.
#[derive(Clone, PartialEq, Eq)]
pub struct DatetimeFormat {
    text: String,
    parts: Vec<Part>,
}

impl fmt::Debug for DatetimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl DatetimeFormat {
    /// Reads a format by Google's rules.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = |problem: String| Err(Invalid::new(field, problem));
        if text.len() > DATETIME_FORMAT_BYTES_MAX {
            return wrong(format!("more than {DATETIME_FORMAT_BYTES_MAX} bytes"));
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let found = MATCHERS.iter().find(|(matcher, _)| rest.starts_with(matcher));
            let (length, part) = match found {
                Some((matcher, part)) => (matcher.len(), *part),
                None if "-_:/".contains(first) => (1, Part::Separator(first)),
                None => {
                    let shown: String = rest.chars().take(8).collect();
                    return wrong(format!(
                        "{shown:?} is no part of a time; YYYY, YY, MM, DD, hh, mm, ss, T, Z, \
                         +00:00 and the separators - _ : / are allowed"
                    ));
                }
            };
            let (matcher, after) = rest.split_at(length);
            if parts.iter().any(|before| before.is_like(part)) {
                return wrong(format!("{matcher} says what was said before; each part goes once"));
            }
            parts.push(part);
            rest = after;
        }
        let has = |wanted: &[Part]| parts.iter().any(|part| wanted.contains(part));
        match NEEDED.iter().find(|(_, wanted)| !has(wanted)) {
            Some((name, _)) => wrong(format!("{name} is missing")),
            None => Ok(Self { text: text.to_owned(), parts }),
        }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The time, and what separates it from what follows: `_`, unless the format ends with a
    /// separator of its own.
    fn write(&self, time: Timestamp, name: &mut String) {
        let (date, clock) = date_and_clock(time);
        let digits =
            |text: &str, from: usize, to: usize| text.get(from..to).unwrap_or_default().to_owned();
        for part in &self.parts {
            name.push_str(&match part {
                Part::Year => digits(&date, 0, 4),
                Part::YearOfCentury => digits(&date, 2, 4),
                Part::Month => digits(&date, 5, 7),
                Part::Day => digits(&date, 8, 10),
                Part::Hour => digits(&clock, 0, 2),
                Part::Minute => digits(&clock, 3, 5),
                Part::Second => digits(&clock, 6, 8),
                Part::T => "T".to_owned(),
                Part::Zone(zone) => (*zone).to_owned(),
                Part::Separator(separator) => separator.to_string(),
            });
        }
        if !matches!(self.parts.last(), Some(Part::Separator(_))) {
            name.push('_');
        }
    }
}

/// `2027-01-15` and `08:00:00`, in UTC.
fn date_and_clock(time: Timestamp) -> (String, String) {
    let text = Timestamp(time.seconds() * 1_000_000).rfc3339();
    let (date, clock) = text.split_once('T').unwrap_or_default();
    (date.to_owned(), clock.to_owned())
}

/// The name of an object that is begun at `time`; `unique` is in no other name.
pub fn object_name(storage: &CloudStorage, time: Timestamp, unique: &str) -> String {
    let mut name = storage.prefix.clone();
    match &storage.datetime {
        Some(format) => format.write(time, &mut name),
        None => {
            // The default is a format like others, which a test has parsed.
            if let Ok(format) = DatetimeFormat::parse("", DEFAULT) {
                format.write(time, &mut name);
            }
        }
    }
    name.push_str(unique);
    name.push_str(&storage.suffix);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-09-25T04:10:09Z.
    const TIME: Timestamp = Timestamp(1_695_615_009_123_456);

    fn name(format: &str) -> String {
        let datetime = match format {
            "" => None,
            text => Some(DatetimeFormat::parse("f", text).unwrap()),
        };
        let (prefix, suffix) = ("prod_".to_owned(), "_archive".to_owned());
        let storage =
            CloudStorage { prefix, suffix, datetime, ..CloudStorage::to_bucket("bucket") };
        object_name(&storage, TIME, "uNiQuE")
    }

    #[test]
    fn names_are_those_of_googles_examples() {
        for (format, expected) in [
            ("", "prod_2023-09-25T04:10:09+00:00_uNiQuE_archive"),
            (DEFAULT, "prod_2023-09-25T04:10:09+00:00_uNiQuE_archive"),
            ("YYYY-MM-DD/hh_mm_ssZ", "prod_2023-09-25/04_10_09Z_uNiQuE_archive"),
            ("YYYY-MM-DDThh_mm_ss-", "prod_2023-09-25T04_10_09-uNiQuE_archive"),
            ("ssmmhhDDMMYY", "prod_091004250923_uNiQuE_archive"),
            ("YYYY/MM/DD/hh/mm/ss/", "prod_2023/09/25/04/10/09/uNiQuE_archive"),
        ] {
            assert_eq!(name(format), expected, "{format}");
        }
    }

    #[test]
    fn every_part_of_the_time_is_there_once() {
        for (bad, problem) in [
            ("", "YYYY or YY is missing"),
            ("YYYY-MM-DD", "hh is missing"),
            ("MM-DD hh", "\" hh\" is no part"),
            ("YY-YYYY-MM-DDThh:mm:ss", "YYYY says what was said before"),
            ("YYYY-MMM-DDThh:mm:ss", "\"M-DDThh:\" is no part"),
            ("YYYY-MM-DDThh:mm:ssZ+00:00", "+00:00 says"),
            ("YYYY-MM-DDTThh:mm:ss", "T says"),
            ("YYYY-MM-DDThh:mm:ss.", "\".\" is no part"),
            ("YYYYMMDDhhmmssß", "is no part"),
        ] {
            let error = DatetimeFormat::parse("f", bad).unwrap_err();
            assert!(error.problem.contains(problem), "{bad}: {error}");
        }
        assert!(DatetimeFormat::parse("f", &"-".repeat(1_000)).is_err());
    }
}
