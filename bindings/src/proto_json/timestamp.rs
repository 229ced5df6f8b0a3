//! Reads and writes timestamps as RFC 3339 text in UTC.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wkt::Timestamp;

const SECONDS_PER_DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z.
pub(super) const FIRST_SECOND: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
pub(super) const LAST_SECOND: i64 = 253_402_300_799;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (text, length) = self.text();
        serializer.serialize_str(std::str::from_utf8(&text[..length]).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a timestamp such as 2025-10-28T10:30:00.000Z")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(|NotATimestamp| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The text is not a timestamp in the years 1 to 9999 with a zone and at most nine fraction digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATimestamp;

impl fmt::Display for NotATimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a timestamp such as 2025-10-28T10:30:00.000Z")
    }
}

impl std::error::Error for NotATimestamp {}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 in UTC with `Z` and 3, 6 or 9 fraction digits, the fewest that lose nothing. A time outside the
    /// years 1 to 9999 is written as the nearest instant in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, length) = self.text();
        f.write_str(std::str::from_utf8(&text[..length]).unwrap_or_default())
    }
}

impl Timestamp {
    /// Returns the ASCII text and its length. This is written by hand because every task that is printed has
    /// timestamps.
    fn text(&self) -> ([u8; 30], usize) {
        let seconds = self.seconds.clamp(FIRST_SECOND, LAST_SECOND);
        let nanos = i64::from(self.nanos.clamp(0, 999_999_999));
        let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        put(&mut text[..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], second / 3600);
        put(&mut text[14..16], second / 60 % 60);
        put(&mut text[17..19], second % 60);
        put(&mut text[20..29], nanos);
        let digits = match nanos {
            n if n % 1_000_000 == 0 => 3,
            n if n % 1_000 == 0 => 6,
            _ => 9,
        };
        text[20 + digits] = b'Z';
        (text, 21 + digits)
    }
}

/// Writes a number with leading zeros.
fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789"[(number % 10) as usize];
        number /= 10;
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    /// Reads RFC 3339 with a capital `T`, and `Z` or an offset, which is converted to UTC.
    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        let (date, rest) = text.as_bytes().split_at_checked(19).ok_or(NotATimestamp)?;
        let field = |from: usize, to: usize| digits(&date[from..to]);
        if [date[4], date[7], date[10], date[13], date[16]] != *b"--T::" {
            return Err(NotATimestamp);
        }
        let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
        let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
        let real = year >= 1
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !real {
            return Err(NotATimestamp);
        }
        let (nanos, zone) = fraction(rest)?;
        let seconds = days(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
        if !(FIRST_SECOND..=LAST_SECOND).contains(&seconds) {
            return Err(NotATimestamp);
        }
        Ok(Self { seconds, nanos })
    }
}

fn digits(text: &[u8]) -> Result<i64, NotATimestamp> {
    text.iter().try_fold(0, |number, byte| match byte {
        b'0'..=b'9' => Ok(number * 10 + i64::from(byte - b'0')),
        _ => Err(NotATimestamp),
    })
}

/// Returns the nanoseconds of the fraction, if there is one, and the text after it.
fn fraction(text: &[u8]) -> Result<(i32, &[u8]), NotATimestamp> {
    let Some(text) = text.strip_prefix(b".") else { return Ok((0, text)) };
    let length = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=9).contains(&length) {
        return Err(NotATimestamp);
    }
    let (fraction, rest) = text.split_at(length);
    let nanos = (length..9).fold(digits(fraction)?, |number, _| number * 10);
    Ok((i32::try_from(nanos).map_err(|_| NotATimestamp)?, rest))
}

/// Returns the seconds that the zone is ahead of UTC.
fn offset(zone: &[u8]) -> Result<i64, NotATimestamp> {
    match zone {
        b"Z" => Ok(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return Err(NotATimestamp);
            }
            let ahead = hours * 3600 + minutes * 60;
            Ok(if *sign == b'+' { ahead } else { -ahead })
        }
        _ => Err(NotATimestamp),
    }
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days before the first of a month in a year that begins in March, so that the leap day comes last. Every
/// five months have 153 days.
fn days_before_month(month_from_march: i64) -> i64 {
    (153 * month_from_march + 2) / 5
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,469 days lie between 0000-03-01, day 1, and 1970-01-01.
    year * 365 + leap_days + days_before_month((month + 9) % 12) + day - 719_469
}

/// Returns the year, month and day of a day counted from 1970-01-01.
fn civil(day: i64) -> (i64, i64, i64) {
    // 146,097 days are 400 years; the guess is at most one year off.
    let mut year = 1970 + (day * 400).div_euclid(146_097);
    while days(year, 1, 1) > day {
        year -= 1;
    }
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let mut month = 12;
    while days(year, month, 1) > day {
        month -= 1;
    }
    (year, month, day - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: i32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    #[test]
    fn known_instants_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.000Z"),
            (1_761_647_400, "2025-10-28T10:30:00.000Z"),
            (FIRST_SECOND, "0001-01-01T00:00:00.000Z"),
            (LAST_SECOND, "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(at(seconds, 0).to_string(), text);
            assert_eq!(text.parse(), Ok(at(seconds, 0)));
        }
    }

    #[test]
    fn every_day_is_distinct_and_follows_the_previous_one() {
        let mut last = (0, 12, 31);
        for day in FIRST_SECOND / SECONDS_PER_DAY..=LAST_SECOND / SECONDS_PER_DAY {
            let date @ (year, month, day_of_month) = civil(day);
            assert_eq!(days(year, month, day_of_month), day);
            assert!((1..=days_in(year, month)).contains(&day_of_month), "{date:?}");
            assert!(date > last, "{date:?} after {last:?}");
            last = date;
        }
        assert_eq!(last, (9999, 12, 31));
    }

    #[test]
    fn fractions_keep_every_digit() {
        for (nanos, text) in [(5, "000000005"), (5_000, "000005"), (5_000_000, "005"), (120_000_000, "120")] {
            let text = format!("1970-01-01T00:00:00.{text}Z");
            assert_eq!(at(0, nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(at(0, nanos)));
        }
        assert_eq!("1970-01-01T00:00:00.5Z".parse(), Ok(at(0, 500_000_000)));
    }

    #[test]
    fn text_that_is_not_a_timestamp_is_refused() {
        for text in [
            "",
            "Z",
            "2025-10-28",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-00-01T00:00:00Z",
            "2025-10-28T10:60:00Z",
            "2025-10-28T10:00:60Z",
            "2025-10-28T10:30:00.Z",
            "2025-10-28T10:30:00+0200",
            "2025-10-28T10:30:00+24:00",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "2025-10-28T10:30:00ZZ",
            "+025-10-28T10:30:00Z",
            "２０25-10-28T10:30:00Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp), "{text}");
        }
    }
}
