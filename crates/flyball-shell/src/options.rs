//! Options of a program, matched against an allow-list.

use crate::word::Word;

/// What a program may be given. Long options are matched exactly: many programs accept any unambiguous beginning of a
/// long option, so a deny-list would miss `--outp=FILE`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// Short options without a value.
    pub(crate) flags: &'static str,
    /// Short options with a value, attached or in the next word.
    pub(crate) valued: &'static str,
    /// Long options, or short ones that are matched as a whole, separated by spaces; with `=` if they take a value, attached or in the next word; with `[=` if the
    /// value can only be attached.
    pub(crate) long: &'static str,
    /// The most operands.
    pub(crate) operands: usize,
}

/// The result of matching arguments.
#[derive(Debug, Default)]
pub(crate) struct Matched<'w> {
    /// Everything that is not an option or the value of one.
    pub(crate) operands: Vec<&'w Word>,
    /// The options that were given, short ones as `-x`.
    pub(crate) given: Vec<String>,
    /// How many words were consumed before the first operand.
    pub(crate) leading: usize,
}

impl Allowed {
    /// No options at all.
    pub(crate) const NOTHING: Allowed = Allowed { flags: "", valued: "", long: "", operands: 0 };

    /// Whether all arguments are allowed.
    pub(crate) fn permits(&self, args: &[Word]) -> bool {
        self.matches(args, false).is_some_and(|matched| matched.operands.len() <= self.operands)
    }

    /// The operands and options, or `None` if an option is not on the list or a word could be any option. With
    /// `leading_only` matching ends at the first operand.
    pub(crate) fn matches<'w>(&self, args: &'w [Word], leading_only: bool) -> Option<Matched<'w>> {
        let mut matched = Matched::default();
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
                _ if is_among(self.long, text) && !text.ends_with('=') => {
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
                // A word that looks like an option may be one, where the value is optional.
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

impl Matched<'_> {
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.given.iter().any(|given| options.contains(&given.as_str()))
    }
}

fn is_negative_number(word: &Word) -> bool {
    word.literal
        && word.text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a word stands in a list of words.
pub(crate) fn is_among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}
