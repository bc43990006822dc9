//! Matches a program's options against an allowlist.

use crate::word::ShellWord;

/// The options and operands that a program may be given. Long options are matched exactly: many programs accept any
/// unambiguous prefix of a long option, so a denylist would miss `--outp=FILE`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowedOptions {
    /// Short options without a value.
    pub(crate) flags: &'static str,
    /// Short options with a value, attached or in the next word.
    pub(crate) valued: &'static str,
    /// Space-separated long options, or short ones matched as a whole. `=` marks a value, attached or in the next word;
    /// `[=` marks a value that can only be attached.
    pub(crate) long: &'static str,
    /// Maximum number of operands.
    pub(crate) operands: usize,
}

/// The result of matching arguments.
#[derive(Debug, Default)]
pub(crate) struct MatchedArgs<'w> {
    /// All words that are neither options nor option values.
    pub(crate) operands: Vec<&'w ShellWord>,
    /// The options given, short ones as `-x`.
    pub(crate) given: Vec<String>,
    /// Number of words before the first operand.
    pub(crate) leading: usize,
}

impl AllowedOptions {
    /// No options at all.
    pub(crate) const NOTHING: AllowedOptions =
        AllowedOptions { flags: "", valued: "", long: "", operands: 0 };

    /// Whether all arguments are allowed.
    pub(crate) fn permits(&self, args: &[ShellWord]) -> bool {
        self.matches(args, false).is_some_and(|matched| matched.operands.len() <= self.operands)
    }

    /// The operands and options, or `None` if an option is not on the list or a word could be any option. With
    /// `leading_only`, matching stops at the first operand.
    pub(crate) fn matches<'w>(&self, args: &'w [ShellWord], leading_only: bool) -> Option<MatchedArgs<'w>> {
        let mut matched = MatchedArgs::default();
        let mut at = 0;
        while let Some(word) = args.get(at) {
            if !word.may_be_option() {
                if leading_only {
                    break;
                }
                matched.operands.push(word);
                at += 1;
                continue;
            }
            let text = word.known()?;
            at += 1;
            if text == "--" {
                if !leading_only {
                    matched.operands.extend(args.get(at..).unwrap_or_default());
                }
                break;
            }
            let needs_value = match text.strip_prefix("--") {
                _ if contains_word(self.long, text) && !text.ends_with('=') => {
                    matched.given.push(text.to_owned());
                    false
                }
                Some(_) => {
                    let name = text.split_once('=').map_or(text, |(name, _)| name);
                    matched.given.push(name.to_owned());
                    self.long_needs_value(text)?
                }
                None => self.short_needs_value(text, &mut matched.given)?,
            };
            if needs_value {
                let value = args.get(at)?;
                // If the value is optional, a word that looks like an option may be one.
                if value.may_be_option() && !is_negative_number(value) {
                    return None;
                }
                at += 1;
            }
        }
        matched.leading = at;
        Some(matched)
    }

    fn long_needs_value(&self, text: &str) -> Option<bool> {
        let (name, attached) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        self.long.split_whitespace().find_map(|listed| {
            if let Some(listed) = listed.strip_suffix("[=") {
                (listed == name).then_some(false)
            } else if let Some(listed) = listed.strip_suffix('=') {
                (listed == name).then_some(!attached)
            } else {
                (listed == name && !attached).then_some(false)
            }
        })
    }

    fn short_needs_value(&self, text: &str, given: &mut Vec<String>) -> Option<bool> {
        let letters: Vec<char> = text.chars().skip(1).collect();
        for (at, letter) in letters.iter().enumerate() {
            given.push(format!("-{letter}"));
            if self.valued.contains(*letter) {
                return Some(at + 1 == letters.len());
            }
            if !self.flags.contains(*letter) {
                return None;
            }
        }
        Some(false)
    }
}

impl MatchedArgs<'_> {
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.given.iter().any(|given| options.contains(&given.as_str()))
    }
}

fn is_negative_number(word: &ShellWord) -> bool {
    word.literal
        && word.text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a space-separated list contains a word.
pub(crate) fn contains_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}
