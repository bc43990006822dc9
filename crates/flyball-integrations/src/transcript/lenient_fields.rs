//! Deserialization helpers for other tools' JSON, tolerant of types that change between versions.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A string, borrowed if it has no escapes. Other types count as empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LenientText<'a>(pub(super) Cow<'a, str>);

impl Deref for LenientText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> LenientText<'a> {
    /// The string, if it is not empty.
    pub(super) fn non_empty(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }
}

/// A scalar JSON value.
enum JsonScalar<'a> {
    Text(Cow<'a, str>),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
    Flag(bool),
    Nothing,
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = JsonScalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Negative(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Fraction(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Flag(flag))
    }

    fn visit_unit<E>(self) -> Result<JsonScalar<'de>, E> {
        Ok(JsonScalar::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<JsonScalar<'de>, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(JsonScalar::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<JsonScalar<'de>, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(JsonScalar::Nothing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LenientText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(LenientText(match deserializer.deserialize_any(ScalarVisitor)? {
            JsonScalar::Text(text) => text,
            JsonScalar::Whole(number) => Cow::Owned(number.to_string()),
            JsonScalar::Negative(number) => Cow::Owned(number.to_string()),
            JsonScalar::Fraction(_) | JsonScalar::Flag(_) | JsonScalar::Nothing => Cow::Borrowed(""),
        }))
    }
}

/// A non-negative integer. Everything else counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LenientCount(pub(super) u64);

impl<'de> Deserialize<'de> for LenientCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(LenientCount(match deserializer.deserialize_any(ScalarVisitor)? {
            JsonScalar::Whole(number) => number,
            JsonScalar::Text(text) => text.parse().unwrap_or(0),
            JsonScalar::Fraction(number) if (0.0..1e15).contains(&number) => number as u64,
            _ => 0,
        }))
    }
}

/// A number, or a number in a string. Everything else counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LenientNumber(pub(super) f64);

impl<'de> Deserialize<'de> for LenientNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(LenientNumber(match deserializer.deserialize_any(ScalarVisitor)? {
            JsonScalar::Whole(number) => number as f64,
            JsonScalar::Negative(number) => number as f64,
            JsonScalar::Fraction(number) => number,
            JsonScalar::Text(text) => text.parse().unwrap_or(0.0),
            JsonScalar::Flag(_) | JsonScalar::Nothing => 0.0,
        }))
    }
}

/// A boolean. Everything other than `true` counts as false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LenientFlag(pub(super) bool);

impl<'de> Deserialize<'de> for LenientFlag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(LenientFlag(matches!(deserializer.deserialize_any(ScalarVisitor)?, JsonScalar::Flag(true))))
    }
}

/// Deserializes a field, treating `null` as the default.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Parses a timestamp into milliseconds since 1970: RFC 3339 with or without a zone, or a number of seconds,
/// milliseconds, microseconds or nanoseconds, distinguished by magnitude.
pub(super) fn parse_timestamp(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(at) = parse_common_timestamp(text) {
        return Some(at);
    }
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        return u64::try_from(stamp.as_millisecond()).ok();
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>() {
        let stamp = jiff::tz::TimeZone::UTC.to_timestamp(local).ok()?;
        return u64::try_from(stamp.as_millisecond()).ok();
    }
    timestamp_from_number(text.parse().ok()?)
}

/// Fast path for the most common format, `2026-10-14T09:00:07.120Z`; `None` for all others.
fn parse_common_timestamp(text: &str) -> Option<u64> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let number = |places: std::ops::Range<usize>| {
        bytes.get(places)?.iter().try_fold(0_u64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Only days that every month has; later days and leap seconds take the slow path.
    let plain = year >= 1970 && (1..=12).contains(&month) && (1..=28).contains(&day);
    if !plain || hour > 23 || minute > 59 || second > 59 || marks.iter().any(|(at, mark)| bytes[*at] != *mark)
    {
        return None;
    }
    // Years start in March here, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let seconds = ((days - DAYS_TO_1970) * 24 + hour) * 3600 + minute * 60 + second;
    Some(seconds * 1000 + number(20..23)?)
}

/// Days from March 1 of year 0 to January 1, 1970.
const DAYS_TO_1970: u64 = 719_468;

/// Converts a number to a timestamp.
#[expect(clippy::float_arithmetic, reason = "fractional seconds are a common timestamp format")]
pub(super) fn timestamp_from_number(number: f64) -> Option<u64> {
    let milliseconds = match number {
        n if n >= 1e17 => n / 1e6,
        n if n >= 1e14 => n / 1e3,
        n if n >= 1e11 => n,
        n if n > 0.0 => n * 1e3,
        _ => return None,
    };
    Some(milliseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::{
        LenientCount, LenientFlag, LenientNumber, LenientText, parse_common_timestamp, parse_timestamp,
    };
    use serde::Deserialize;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct LenientRow<'a> {
        #[serde(borrow)]
        text: LenientText<'a>,
        count: LenientCount,
        number: LenientNumber,
        flag: LenientFlag,
    }

    #[test]
    fn field_of_another_type_does_not_fail_the_line() {
        for odd in ["null", "true", "7", "-7", "0.5", "[1,[2]]", r#"{"a":{"b":1}}"#, r#""x\n""#] {
            let line = format!(r#"{{"text":{odd},"count":{odd},"number":{odd},"flag":{odd}}}"#);
            let row: LenientRow<'_> =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(row.flag.0, odd == "true");
            assert_eq!(row.count.0, if odd == "7" { 7 } else { 0 });
            assert_eq!(row.number.0 == 0.0, !odd.contains(['7', '5']), "{odd}");
            assert_eq!(row.text.is_empty(), !odd.starts_with(['7', '-', '"']), "{odd}");
        }
    }

    #[test]
    fn fast_timestamp_parser_agrees_with_jiff() {
        let mut quick = 0;
        for year in [1970, 1971, 1999, 2000, 2024, 2025, 2026, 2100, 9999] {
            for month in 0..=13 {
                for day in [0, 1, 27, 28, 29, 31] {
                    for time in
                        ["00:00:00.000Z", "23:59:59.999Z", "12:34:56.789Z", "24:00:00.000Z", "1x:00:00.000Z"]
                    {
                        let text = format!("{year:04}-{month:02}-{day:02}T{time}");
                        let long = text.parse::<jiff::Timestamp>().ok();
                        let long = long.and_then(|stamp| u64::try_from(stamp.as_millisecond()).ok());
                        let short = parse_common_timestamp(&text);
                        quick += u32::from(short.is_some());
                        assert!(short.is_none() || short == long, "{text}: {short:?}, {long:?}");
                    }
                }
            }
        }
        assert_eq!(quick, 9 * 12 * 3 * 3);
        for other in ["2026-10-14T09:00:07.120+", "2026-10-14 09:00:07.120Z", "1969-12-31T23:59:59.999Z"] {
            assert_eq!(parse_common_timestamp(other), None, "{other}");
        }
    }

    #[test]
    fn common_timestamp_spellings_are_parsed() {
        let wanted = Some(1_763_467_200_500);
        for text in [
            "2025-11-18T12:00:00.5Z",
            "2025-11-18T12:00:00.500000",
            "2025-11-18T13:00:00.5+01:00",
            "1763467200500",
            "1763467200.5",
            "1763467200500000000",
        ] {
            assert_eq!(parse_timestamp(text), wanted, "{text}");
        }
        for text in ["", "yesterday", "-5", "0"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
