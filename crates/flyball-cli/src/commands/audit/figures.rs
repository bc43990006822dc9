//! Numbers as a report shows them: `1,203`, `3.1 M`, `$9.12`, `31 %`.

/// A count with its thousands apart.
pub(super) fn grouped(count: u64) -> String {
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

/// A large amount in its unit, with two digits at least.
pub(super) fn amount(count: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    if count < 10_000 {
        return grouped(count);
    }
    let (unit, letter) = UNITS.into_iter().find(|(unit, _)| count >= *unit).unwrap_or((1, ""));
    format!("{} {letter}", tenths(count, unit))
}

/// Bytes.
pub(super) fn bytes(count: u64) -> String {
    let shown = amount(count);
    let unit = if shown.ends_with(|c: char| c.is_ascii_alphabetic()) { "B" } else { " B" };
    format!("{shown}{unit}")
}

/// Money from millionths of a dollar.
pub(super) fn money(micro: u64) -> String {
    if micro > 0 && micro < 10_000 {
        return crate::words::dollars(micro);
    }
    // Rounded to cents.
    let cents = micro.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", grouped(cents / 100), cents % 100)
}

/// A span of time in as little room as it needs: `41 s`, `56 min`, `3.2 h`.
pub(super) fn short_time(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", tenths(seconds, 3600)),
    }
}

fn tenths(count: u64, unit: u64) -> String {
    let tenths = u128::from(count) * 10 / u128::from(unit);
    if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { (tenths / 10).to_string() }
}

/// A part of a whole in percent.
pub(super) fn share(part: u64, whole: u64) -> String {
    let permille = permille(part, whole);
    match permille {
        0 if part > 0 => "< 0.1 %".to_owned(),
        0..100 if !permille.is_multiple_of(10) => format!("{}.{} %", permille / 10, permille % 10),
        _ => format!("{} %", (permille + 5) / 10),
    }
}

/// A part of a whole in thousandths.
pub(super) fn permille(part: u64, whole: u64) -> u64 {
    let all = u128::from(whole).max(1);
    u64::try_from((u128::from(part) * 1000 + all / 2) / all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Numbers at the borders of their units.

    use super::{amount, bytes, grouped, money, share, short_time};

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([amount(9_999), amount(10_000), amount(123_456)], ["9,999", "10 k", "123 k"]);
        assert_eq!(
            [amount(3_100_000), amount(99_999_999), amount(2_000_000_000)],
            ["3.1 M", "99 M", "2.0 G"]
        );
        assert_eq!(
            [short_time(41_999), short_time(60_000), short_time(11_520_000)],
            ["41 s", "1 min", "3.2 h"]
        );
        assert_eq!([bytes(512), bytes(52_000_000)], ["512 B", "52 MB"]);
        assert_eq!([money(0), money(4_200), money(9_120_000)], ["$0.00", "$0.0042", "$9.12"]);
        assert_eq!([money(9_999), money(1_234_567_890_000)], ["$0.0099", "$1,234,567.89"]);
        assert_eq!(
            [share(0, 0), share(0, 5), share(1, 5_000), share(31, 100)],
            ["0 %", "0 %", "< 0.1 %", "31 %"]
        );
        assert_eq!([share(12, 1_000), share(10, 1_000), share(5, 5)], ["1.2 %", "1 %", "100 %"]);
    }
}
