//! Variants of a model name: with and without provider prefix and date suffix.

/// The variants of a name, the exact one first.
pub(super) fn name_variants(model: &str) -> impl Iterator<Item = &str> {
    let bare = without_provider(model);
    [model, bare, without_date(bare)].into_iter()
}

/// Strips the provider: `anthropic/claude-x` and `us.anthropic.claude-x` become `claude-x`.
fn without_provider(model: &str) -> &str {
    let last = model.rsplit('/').next().unwrap_or(model);
    match last.find("anthropic.") {
        Some(at) => last.get(at + "anthropic.".len()..).unwrap_or(last),
        None => last,
    }
}

/// Strips `-20250929`, `@20250929`, `-2025-08-07`, `-latest`, and Bedrock's version suffix.
fn without_date(model: &str) -> &str {
    let model =
        model.split_once("-v").filter(|(_, version)| is_version(version)).map_or(model, |(name, _)| name);
    if let Some(name) = model.strip_suffix("-latest") {
        return name;
    }
    for length in [8, 10] {
        let Some(cut) = model.len().checked_sub(length + 1) else { continue };
        let Some((name, date)) = model.split_at_checked(cut) else { continue };
        let rest = date.strip_prefix('-').or_else(|| date.strip_prefix('@'));
        if !name.is_empty() && rest.is_some_and(is_date) {
            return name;
        }
    }
    model
}

/// Whether a text is a date: `20250929` or `2025-09-29`.
fn is_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let dashes = text.bytes().filter(|byte| *byte == b'-').count();
    digits == 8 && text.starts_with("20") && matches!((text.len(), dashes), (8, 0) | (10, 2))
}

/// Whether a text is a version: `1`, `2:0`.
fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
}
