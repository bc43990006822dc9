//! Number formats: `1,203`, `3.1 M`, `$9.12`, `31 %`.

/// A count with thousands separators.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A large amount with a unit prefix and at least two digits.
pub fn format_amount(count: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    if count < 10_000 {
        return format_count(count);
    }
    let (unit, letter) = UNITS.into_iter().find(|(unit, _)| count >= *unit).unwrap_or((1, ""));
    format!("{} {letter}", format_tenths(count, unit))
}

/// A size in bytes.
pub fn format_bytes(count: u64) -> String {
    let shown = format_amount(count);
    let unit = if shown.ends_with(|c: char| c.is_ascii_alphabetic()) { "B" } else { " B" };
    format!("{shown}{unit}")
}

/// An amount in dollars, from millionths of a dollar.
pub fn format_dollars(micro: u64) -> String {
    if micro > 0 && micro < 10_000 {
        // Less than a cent.
        return format!("$0.{:04}", micro / 100);
    }
    // Round to cents.
    let cents = micro.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", format_count(cents / 100), cents % 100)
}

fn format_tenths(count: u64, unit: u64) -> String {
    let tenths = u128::from(count) * 10 / u128::from(unit);
    if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { (tenths / 10).to_string() }
}

/// A fraction in percent.
pub fn format_percent(part: u64, whole: u64) -> String {
    let permille = permille(part, whole);
    match permille {
        0 if part > 0 => "< 0.1 %".to_owned(),
        0..100 if !permille.is_multiple_of(10) => format!("{}.{} %", permille / 10, permille % 10),
        _ => format!("{} %", (permille + 5) / 10),
    }
}

/// A part of a whole in thousandths.
pub fn permille(part: u64, whole: u64) -> u64 {
    let all = u128::from(whole).max(1);
    u64::try_from((u128::from(part) * 1000 + all / 2) / all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Tests numbers at the unit boundaries.

    use super::{format_amount, format_bytes, format_count, format_dollars, format_percent};

    #[test]
    fn numbers_are_formatted_with_units_and_separators() {
        assert_eq!(
            [format_count(0), format_count(999), format_count(1_000), format_count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [format_amount(9_999), format_amount(10_000), format_amount(123_456)],
            ["9,999", "10 k", "123 k"]
        );
        assert_eq!(
            [format_amount(3_100_000), format_amount(99_999_999), format_amount(2_000_000_000)],
            ["3.1 M", "99 M", "2.0 G"]
        );
        assert_eq!([format_bytes(512), format_bytes(52_000_000)], ["512 B", "52 MB"]);
        assert_eq!(
            [format_dollars(0), format_dollars(4_200), format_dollars(9_120_000)],
            ["$0.00", "$0.0042", "$9.12"]
        );
        assert_eq!([format_dollars(9_999), format_dollars(1_234_567_890_000)], ["$0.0099", "$1,234,567.89"]);
        assert_eq!(
            [format_percent(0, 0), format_percent(0, 5), format_percent(1, 5_000), format_percent(31, 100)],
            ["0 %", "0 %", "< 0.1 %", "31 %"]
        );
        assert_eq!(
            [format_percent(12, 1_000), format_percent(10, 1_000), format_percent(5, 5)],
            ["1.2 %", "1 %", "100 %"]
        );
    }
}
