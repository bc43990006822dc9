//! Building bricks for reading other people's JSON: tolerant of types that change from version to version.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A text, borrowed from the line where it has no escapes. Anything that is no text counts as an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> Text<'a> {
    /// The text, if there is one.
    pub(super) fn some(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Text<'de>, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Text<'de>, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A whole number that is not below 0. Anything else counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?.0;
        Ok(Count(if (0.0..1e15).contains(&number) { number as u64 } else { 0 }))
    }
}

/// A number, also one that is written as a text. Anything else counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl<'de> Visitor<'de> for NumberVisitor {
            type Value = f64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
                Ok(number)
            }
            fn visit_str<E>(self, text: &str) -> Result<f64, E> {
                Ok(text.parse().unwrap_or(0.0))
            }
            fn visit_bool<E>(self, _: bool) -> Result<f64, E> {
                Ok(0.0)
            }
            fn visit_unit<E>(self) -> Result<f64, E> {
                Ok(0.0)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<f64, A::Error> {
                while access.next_element::<IgnoredAny>()?.is_some() {}
                Ok(0.0)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<f64, A::Error> {
                while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(0.0)
            }
        }
        deserializer.deserialize_any(NumberVisitor).map(Number)
    }
}

/// Yes or no; anything else than `true` is a no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(Flag(raw.get() == "true"))
    }
}

/// A moment as other tools write it, in milliseconds since 1970: RFC 3339 with or without a zone, or a number of
/// seconds, milliseconds, microseconds or nanoseconds, told apart by its size.
pub(super) fn moment(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        return u64::try_from(stamp.as_millisecond()).ok();
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>() {
        let stamp = jiff::tz::TimeZone::UTC.to_timestamp(local).ok()?;
        return u64::try_from(stamp.as_millisecond()).ok();
    }
    moment_number(text.parse().ok()?)
}

/// A number that stands for a moment.
#[expect(clippy::float_arithmetic, reason = "seconds with a fraction are a usual way to write a time")]
pub(super) fn moment_number(number: f64) -> Option<u64> {
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
    use super::{Count, Flag, Text, moment};
    use serde::Deserialize;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Row<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        count: Count,
        flag: Flag,
    }

    #[test]
    fn a_field_of_another_type_does_not_spoil_the_line() {
        for odd in ["null", "true", "7", "-7", "0.5", "[1,[2]]", r#"{"a":{"b":1}}"#, r#""x\n""#] {
            let line = format!(r#"{{"text":{odd},"count":{odd},"flag":{odd}}}"#);
            let row: Row<'_> = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(row.flag.0, odd == "true");
            assert_eq!(row.count.0, if odd == "7" { 7 } else { 0 });
            assert_eq!(row.text.is_empty(), !odd.starts_with(['7', '-', '"']), "{odd}");
        }
    }

    #[test]
    fn times_are_understood_as_tools_write_them() {
        let wanted = Some(1_763_467_200_500);
        for text in [
            "2025-11-18T12:00:00.5Z",
            "2025-11-18T12:00:00.500000",
            "2025-11-18T13:00:00.5+01:00",
            "1763467200500",
            "1763467200.5",
            "1763467200500000000",
        ] {
            assert_eq!(moment(text), wanted, "{text}");
        }
        for text in ["", "yesterday", "-5", "0"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
