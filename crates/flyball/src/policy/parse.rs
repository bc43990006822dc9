//! Text to tree: YAML, TOML or JSON, with the place of every key, and bounds on all of it.

use serde_json::{Map, Value};

use super::error::{Code, PolicyError, PolicyErrors};
use super::layer::{Layer, Origin, Trust};
use super::places::{Lines, Place, Places};
use super::{parse_json, parse_toml, parse_yaml};

/// The longest text.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// The deepest nesting.
pub const MAX_DEPTH: usize = 32;
/// The most entries of one map or list.
pub const MAX_ENTRIES: usize = 1_000;
/// The most values of one text, aliases written out.
pub const MAX_VALUES: usize = 20_000;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format of a file, by the end of its name, or else by its first line.
    pub fn guess(name: &str, text: &str) -> Format {
        let end = name.rsplit('.').next().unwrap_or("");
        match end.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Format::Yaml,
            "toml" => Format::Toml,
            "json" => Format::Json,
            _ => Format::guess_by_content(text),
        }
    }

    fn guess_by_content(text: &str) -> Format {
        let line = text
            .trim_start_matches('\u{feff}')
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or("");
        let key_end = line.find([':', '=']);
        let equals = key_end.and_then(|at| line.get(at..)).is_some_and(|rest| rest.starts_with('='));
        if line.starts_with('{') {
            Format::Json
        } else if equals || (line.starts_with('[') && line.ends_with(']')) {
            Format::Toml
        } else {
            Format::Yaml
        }
    }
}

/// Reads a policy file. `name` is shown in messages and origins.
///
/// Keys are not checked here but in [`super::resolve`], which sees all layers.
///
/// # Errors
///
/// `policy_syntax` and `policy_duplicate_key`, each with line and column.
pub fn parse(text: &str, format: Format, name: &str) -> Result<Layer, PolicyErrors> {
    let mut reading = Reading::new(name);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = if let Some((at, bad)) = forbidden_character(text) {
        let what = format!("the character U+{:04X} is not allowed in a policy file", u32::from(bad));
        reading.fail(
            Some(Lines::new(text).place(at)),
            &what,
            "remove it: a policy is read to its end, or not at all",
        );
        None
    } else if text.len() > MAX_TEXT_BYTES {
        let what = format!("the text is longer than {} KiB", MAX_TEXT_BYTES / 1024);
        reading.fail(None, &what, "split it, or remove what is not policy");
        None
    } else {
        match format {
            Format::Yaml => parse_yaml::read(text, &mut reading),
            Format::Toml => parse_toml::read(text, &mut reading),
            Format::Json => parse_json::read(text, &mut reading),
        }
    };
    let tree = match tree {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(tree @ Value::Object(_)) => tree,
        Some(_) => {
            reading.fail(Some(Place::new(1, 1)), "the file is not a map of keys", "write `key: value` lines");
            Value::Null
        }
    };
    PolicyErrors::check(reading.errors)?;
    Ok(Layer {
        origin: Origin::File { name: name.to_owned() },
        tree,
        places: reading.places,
        variables: Default::default(),
        trust: Trust::Full,
    })
}

/// The first character that would let a reader see another text than the parser: NUL and other control characters, a
/// byte-order mark that is not at the start, characters that turn the direction of the text.
fn forbidden_character(text: &str) -> Option<(usize, char)> {
    let forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.char_indices().find(|(_, c)| forbidden(*c))
}

/// What the three readers share: the path they are at, bounds, places and errors.
pub(super) struct Reading {
    name: String,
    pub(super) path: Vec<String>,
    pub(super) places: Places,
    errors: Vec<PolicyError>,
    values: usize,
}

impl Reading {
    fn new(name: &str) -> Reading {
        Reading {
            name: name.to_owned(),
            path: Vec::new(),
            places: Places::default(),
            errors: Vec::new(),
            values: 0,
        }
    }

    pub(super) fn fail(&mut self, place: Option<Place>, what: &str, help: &str) {
        self.error(Code::Syntax, place, what, help);
    }

    pub(super) fn duplicate(&mut self, place: Place, key: &str) {
        let what = format!("the key '{key}' is written twice");
        self.error(Code::DuplicateKey, Some(place), &what, "keep one of the two");
    }

    pub(super) fn error(&mut self, code: Code, place: Option<Place>, what: &str, help: &str) {
        self.errors.push(PolicyError {
            code,
            file: self.name.clone(),
            line: place.map(|p| p.line),
            column: place.map(|p| p.column),
            path: super::places::join(&self.path),
            what: what.to_owned(),
            help: help.to_owned(),
        });
    }

    /// Counts `values` more values at the current depth; `false` (with an error) if that is too much.
    pub(super) fn fits(&mut self, values: usize, deeper: usize, place: Place) -> bool {
        self.values = self.values.saturating_add(values);
        if self.path.len() + deeper > MAX_DEPTH {
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            self.fail(Some(place), &what, "a policy needs no more than six levels");
            return false;
        }
        if self.values > MAX_VALUES {
            let what = format!("more than {MAX_VALUES} values");
            self.fail(Some(place), &what, "remove repeated aliases or split the file");
            return false;
        }
        true
    }

    /// Whether a map or list with `entries` entries may have one more.
    pub(super) fn room(&mut self, entries: usize, place: Place) -> bool {
        if entries < MAX_ENTRIES {
            return true;
        }
        let what = format!("more than {MAX_ENTRIES} entries in one map or list");
        self.fail(Some(place), &what, "split it, or use one common value");
        false
    }

    /// Goes into a key of a map or an index of a list, and remembers its place.
    pub(super) fn enter(&mut self, part: String, place: Place) {
        self.path.push(part);
        let Reading { path, places, .. } = self;
        places.insert(path, place);
    }

    pub(super) fn leave(&mut self) {
        self.path.pop();
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
