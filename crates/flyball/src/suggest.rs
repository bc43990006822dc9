//! "Did you mean …?": the known name that is nearest to an unknown one.

/// The nearest of the known names, if one is near enough to be worth suggesting.
pub(crate) fn closest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = unknown.to_lowercase().chars().take(80).collect();
    let most = (wanted.len() / 3).max(2);
    known
        .map(|name| (distance(&wanted, name), name))
        .filter(|(far, _)| *far <= most)
        .min()
        .map(|(_, name)| name)
}

/// The edit distance (insert, delete, replace, swap of neighbours).
fn distance(left: &[char], right: &str) -> usize {
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn suggests_a_near_name_and_nothing_far_fetched() {
        let known = ["repetition", "recurrence", "visits", "tool.requested"];
        for (wrong, wanted) in [
            ("repitition", Some("repetition")),
            ("tool.request", Some("tool.requested")),
            ("vists", Some("visits")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(closest(wrong, known.iter().copied()), wanted, "{wrong}");
        }
    }
}
