//! Durations and money as people write them, and durations as people read them: the only parser and formatters.

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MICROS_PER_DOLLAR: u64 = 1_000_000;

/// Units in files and on command lines.
const WRITTEN_UNITS: [(&str, u64); 7] =
    [("w", 7 * DAY), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("min", MINUTE), ("s", SECOND), ("ms", 1)];
/// Units on screens, the longest first. All of them can be written too.
const SHOWN_UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1)];

/// A decimal number without floating point: `1.5` becomes (15, 1).
fn parse_decimal(text: &str) -> Option<(u128, u32)> {
    let text = text.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 18 || part.len() > 12 {
        return None;
    }
    let joined: String = [whole, part].concat();
    Some((joined.parse().ok()?, u32::try_from(part.len()).ok()?))
}

/// `number` × `factor` as a whole number, rounded down.
#[must_use]
pub fn parse_scaled(number: &str, factor: u64) -> Option<u64> {
    let (mantissa, decimals) = parse_decimal(number)?;
    let divisor = 10_u128.checked_pow(decimals)?;
    u64::try_from(mantissa.checked_mul(u128::from(factor))? / divisor).ok()
}

/// A whole number, underscores allowed: `200_000`.
#[must_use]
pub fn parse_whole(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('_') || !text.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// A duration in milliseconds: `90s`, `10m`, `4h`, `1h30m`, `1.5h`, `7d`, `2w`, `250ms`, or a number of milliseconds.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    parse_whole(text).or_else(|| parse_age_ms(text))
}

/// A duration in milliseconds that needs a unit: `--older-than 30` must not mean 30 milliseconds.
#[must_use]
pub fn parse_age_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(number_end)?;
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit_end)?;
        let (_, factor) = WRITTEN_UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(parse_scaled(number, *factor)?)?;
        rest = next.trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

/// Dollars as millionths: `2.5` and `$2.5` become 2,500,000.
#[must_use]
pub fn parse_micro_usd(text: &str) -> Option<u64> {
    let text = text.trim();
    parse_scaled(text.strip_prefix('$').unwrap_or(text), MICROS_PER_DOLLAR)
}

/// A duration for a file, exactly: `4h`, `1h30m`, `1500ms`.
#[must_use]
pub fn written_duration(ms: u64) -> String {
    if ms == 0 || !ms.is_multiple_of(SECOND) {
        return format!("{ms}ms");
    }
    let mut rest = ms;
    let mut text = String::new();
    for (unit, factor) in [("h", HOUR), ("m", MINUTE), ("s", SECOND)] {
        if rest >= factor {
            text.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    text
}

/// A duration for a screen, in its two largest units: `94 ms`, `1.4 s`, `13 min`, `1 h 30 min`, `3 d 4 h`.
#[must_use]
pub fn format_duration(ms: u64) -> String {
    match ms {
        0 => "0 s".to_owned(),
        1..SECOND => format!("{ms} ms"),
        SECOND..10_000 if ms % SECOND >= 100 => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        _ => {
            let (at, (unit, factor)) = largest_unit(ms);
            let second = SHOWN_UNITS.get(at + 1).filter(|(_, next)| *next >= SECOND);
            let second =
                second.map(|(unit, next)| (ms % factor / next, unit)).filter(|(count, _)| *count > 0);
            let second = second.map_or_else(String::new, |(count, unit)| format!(" {count} {unit}"));
            format!("{} {unit}{second}", ms / factor)
        }
    }
}

/// A duration for a screen in its largest unit, for ages: `7 s`, `13 min`, `2 h`, `3 d`.
#[must_use]
pub fn coarse_duration(ms: u64) -> String {
    if ms < SECOND {
        return "0 s".to_owned();
    }
    let (_, (unit, factor)) = largest_unit(ms);
    format!("{} {unit}", ms / factor)
}

/// A duration for a screen, exactly: `1 h 30 min`, `2 s 500 ms`.
#[must_use]
pub fn exact_duration(ms: u64) -> String {
    let mut rest = ms;
    let mut parts = Vec::new();
    for (unit, factor) in SHOWN_UNITS {
        if rest >= factor {
            parts.push(format!("{} {unit}", rest / factor));
            rest %= factor;
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

fn largest_unit(ms: u64) -> (usize, (&'static str, u64)) {
    SHOWN_UNITS.into_iter().enumerate().find(|(_, (_, factor))| ms >= *factor).unwrap_or((4, ("ms", 1)))
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
