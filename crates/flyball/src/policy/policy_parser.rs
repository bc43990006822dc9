//! Parses YAML, TOML or JSON into a tree with the position of every key, within limits.

use serde_json::{Map, Value};

use super::layer::{LayerTrust, PolicyLayer, ValueOrigin};
use super::policy_error::{PolicyError, PolicyErrorCode, PolicyErrors};
use super::positions::{KeyPositions, LineIndex, SourcePosition};
use super::{json_reader, toml_reader, yaml_reader};

/// Maximum length of the text.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Maximum nesting depth.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of entries in one map or list.
pub const MAX_ENTRIES: usize = 1_000;
/// Maximum number of values in one text, with aliases expanded.
pub const MAX_VALUES: usize = 20_000;

/// The format of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFormat {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

impl PolicyFormat {
    /// Guesses the format of a file from its extension or its first line.
    pub fn guess(name: &str, text: &str) -> PolicyFormat {
        let end = name.rsplit('.').next().unwrap_or("");
        match end.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => PolicyFormat::Yaml,
            "toml" => PolicyFormat::Toml,
            "json" => PolicyFormat::Json,
            _ => PolicyFormat::guess_by_content(text),
        }
    }

    fn guess_by_content(text: &str) -> PolicyFormat {
        let line = text
            .trim_start_matches('\u{feff}')
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or("");
        let key_end = line.find([':', '=']);
        let equals = key_end.and_then(|at| line.get(at..)).is_some_and(|rest| rest.starts_with('='));
        if line.starts_with('{') {
            PolicyFormat::Json
        } else if equals || (line.starts_with('[') && line.ends_with(']')) {
            PolicyFormat::Toml
        } else {
            PolicyFormat::Yaml
        }
    }
}

/// Parses a policy file. `name` appears in messages and origins.
///
/// Keys are not checked here but in [`super::resolve`], which sees all layers.
///
/// # Errors
///
/// `policy_syntax` and `policy_duplicate_key`, each with line and column.
pub fn parse(text: &str, format: PolicyFormat, name: &str) -> Result<PolicyLayer, PolicyErrors> {
    let mut reading = ParseContext::new(name);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = if let Some((at, bad)) = forbidden_character(text) {
        let what = format!("the character U+{:04X} is not allowed", u32::from(bad));
        reading.syntax_error(Some(LineIndex::new(text).position(at)), &what, "remove this character");
        None
    } else if text.len() > MAX_TEXT_BYTES {
        let what = format!("the text is longer than {} KiB", MAX_TEXT_BYTES / 1024);
        reading.syntax_error(None, &what, "split the file");
        None
    } else {
        match format {
            PolicyFormat::Yaml => yaml_reader::read_yaml(text, &mut reading),
            PolicyFormat::Toml => toml_reader::read_toml(text, &mut reading),
            PolicyFormat::Json => json_reader::read_json(text, &mut reading),
        }
    };
    let tree = match tree {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(tree @ Value::Object(_)) => tree,
        Some(_) => {
            reading.syntax_error(
                Some(SourcePosition::new(1, 1)),
                "the file must be a map of keys",
                "write `key: value` lines",
            );
            Value::Null
        }
    };
    PolicyErrors::into_result(reading.errors)?;
    Ok(PolicyLayer {
        origin: ValueOrigin::File { name: name.to_owned() },
        tree,
        positions: reading.positions,
        variables: Default::default(),
        trust: LayerTrust::Full,
    })
}

/// Finds the first character that could make the text look different from what is parsed: NUL and other control
/// characters, a byte-order mark after the start, characters that change the text direction.
fn forbidden_character(text: &str) -> Option<(usize, char)> {
    let forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.char_indices().find(|(_, c)| forbidden(*c))
}

/// State shared by the three parsers: the current path, limits, positions and errors.
pub(super) struct ParseContext {
    name: String,
    pub(super) path: Vec<String>,
    pub(super) positions: KeyPositions,
    errors: Vec<PolicyError>,
    values: usize,
}

impl ParseContext {
    fn new(name: &str) -> ParseContext {
        ParseContext {
            name: name.to_owned(),
            path: Vec::new(),
            positions: KeyPositions::default(),
            errors: Vec::new(),
            values: 0,
        }
    }

    pub(super) fn syntax_error(&mut self, place: Option<SourcePosition>, what: &str, help: &str) {
        self.add_error(PolicyErrorCode::Syntax, place, what, help);
    }

    pub(super) fn duplicate_key(&mut self, place: SourcePosition, key: &str) {
        let what = format!("duplicate key '{key}'");
        self.add_error(PolicyErrorCode::DuplicateKey, Some(place), &what, "keep one of them");
    }

    pub(super) fn add_error(
        &mut self,
        code: PolicyErrorCode,
        place: Option<SourcePosition>,
        what: &str,
        help: &str,
    ) {
        self.errors.push(PolicyError {
            code,
            file: self.name.clone(),
            line: place.map(|p| p.line),
            column: place.map(|p| p.column),
            path: super::positions::join_path(&self.path),
            message: what.to_owned(),
            help: help.to_owned(),
        });
    }

    /// Counts `values` more values at the current depth. Reports an error and returns `false` if a limit is exceeded.
    pub(super) fn check_size(&mut self, values: usize, deeper: usize, place: SourcePosition) -> bool {
        self.values = self.values.saturating_add(values);
        if self.path.len() + deeper > MAX_DEPTH {
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            self.syntax_error(Some(place), &what, "use fewer levels");
            return false;
        }
        if self.values > MAX_VALUES {
            let what = format!("more than {MAX_VALUES} values");
            self.syntax_error(Some(place), &what, "remove repeated aliases or split the file");
            return false;
        }
        true
    }

    /// Whether a map or list with `entries` entries may have one more.
    pub(super) fn check_entries(&mut self, entries: usize, place: SourcePosition) -> bool {
        if entries < MAX_ENTRIES {
            return true;
        }
        let what = format!("more than {MAX_ENTRIES} entries in one map or list");
        self.syntax_error(Some(place), &what, "split it, or set one common value");
        false
    }

    /// Enters a key of a map or an index of a list, and records its position.
    pub(super) fn enter(&mut self, part: String, place: SourcePosition) {
        self.path.push(part);
        let ParseContext { path, positions: places, .. } = self;
        places.insert(path, place);
    }

    pub(super) fn leave(&mut self) {
        self.path.pop();
    }
}

#[cfg(test)]
#[path = "policy_parser_tests.rs"]
mod tests;
