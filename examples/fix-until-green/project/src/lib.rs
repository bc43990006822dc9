//! Invoices in cents. Three things are wrong here, and the tests know it.

/// The sum of all positions.
pub fn total(cents: &[u64]) -> u64 {
    cents.iter().skip(1).sum()
}

/// Value added tax at a percentage, rounded to the nearest cent.
pub fn tax(cents: u64, percent: u64) -> u64 {
    cents * percent / 100
}

/// An amount for people to read.
pub fn shown(cents: u64) -> String {
    format!("{}.{}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_counts_every_position() {
        assert_eq!(total(&[100, 250, 50]), 400);
    }

    #[test]
    fn tax_is_rounded_to_the_nearest_cent() {
        assert_eq!(tax(1_999, 19), 380);
    }

    #[test]
    fn cents_have_two_digits() {
        assert_eq!(shown(1_905), "19.05");
    }
}
