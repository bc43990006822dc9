//! One declaration per section of the policy.
//!
//! [`settings!`] takes a struct with documented fields and generates the struct, its values in each preset, its reader
//! and its JSON schema. A field states its default, its kind and, after `in`, the presets with another value.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Preset;
use super::guard_mode::Limit;
use super::schema_values::{CostValue, DetectorSetting, DurationValue, LimitValue};
pub(crate) use super::section_reader::{AMOUNT_RANGE, COUNT_RANGE, PolicySection, SectionReader};
use super::units;
use super::values::keyword_of;
pub(crate) use super::values::{Keyword, StricterDirection};

/// Consecutive observations, including the first; one alone is never a repeat.
pub(crate) const IN_A_ROW_RANGE: RangeInclusive<u64> = 2..=1_000_000;
/// Number of recent calls a guard may consider: as many as it keeps.
pub(crate) const WINDOW_RANGE: RangeInclusive<u64> = 2..=64;
/// A share in percent.
pub(crate) const PERCENT_RANGE: RangeInclusive<u64> = 1..=100;

/// A section that [`settings!`] declared.
pub(crate) trait Settings: PolicySection + JsonSchema {
    /// The values of a preset.
    fn preset(preset: Preset) -> Self;
    /// Adds the schema of each key.
    fn describe(&self, keys: &mut SchemaKeys<'_>);
}

/// The keys that one scope (a node, an edge or a tool) may set of a guard.
pub(crate) trait ScopeKeys {
    /// The keys; `None` = all.
    const KEYS: Option<&'static [&'static str]> = None;
}

/// The kind of a key: how its value is read, described, and lowered in the preset `strict`.
pub(crate) trait KeyKind<T> {
    /// The description of the value in the schema.
    type Schema: JsonSchema;
    /// Reads the key into its slot.
    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut T);
    /// The default as the manual writes it.
    fn default_text(&self, _value: &T) -> Option<String> {
        None
    }
    /// The value in a preset, unless the field states one: by default the same in all.
    fn in_preset(&self, _preset: Preset, default: T) -> T {
        default
    }
    /// Adds the schema of the key.
    fn describe(&self, key: &'static str, doc: &str, value: &T, keys: &mut SchemaKeys<'_>) {
        let schema = keys.generator.subschema_for::<Option<Self::Schema>>();
        let doc = match self.default_text(value) {
            Some(text) if !doc.contains("Default: ") => format!("{doc} Default: {text}."),
            _ => doc.to_owned(),
        };
        keys.add(key, schema, &doc);
    }
}

/// A whole number; `off` if the field is a [`Limit`].
pub(crate) struct Count(pub(crate) RangeInclusive<u64>, pub(crate) StricterDirection);
/// A duration; `off` if the field is a [`Limit`].
pub(crate) struct Duration(pub(crate) StricterDirection);
/// An amount in dollars, or `off`.
pub(crate) struct Cost(pub(crate) StricterDirection);
/// True or false.
pub(crate) struct Flag(pub(crate) StricterDirection);
/// Whether the limit of this name also applies inside declared loops: by default, if it is set explicitly.
pub(crate) struct HoldsInLoops(pub(crate) &'static str);
/// One of a set of keywords.
pub(crate) struct Word;
/// A text.
pub(crate) struct Text;
/// Texts by name.
pub(crate) struct Texts;
/// A nested section.
pub(crate) struct Nested;
/// A nested section that may also be `off`.
pub(crate) struct Detector;

/// A number in a preset: `strict` halves what is stricter if it is less, but not below 2.
fn number_in(preset: Preset, direction: StricterDirection, value: u64) -> u64 {
    let halves = preset == Preset::Strict && direction == StricterDirection::Less;
    if halves { value.div_ceil(2).max(2) } else { value }
}

fn number_text(value: &Limit) -> String {
    value.map_or_else(|| "off".to_owned(), |value| value.to_string())
}

fn duration_text(value: &Limit) -> String {
    value.map_or_else(|| "off".to_owned(), units::written_duration)
}

impl KeyKind<Limit> for Count {
    type Schema = LimitValue;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut Limit) {
        reader.limit(key, slot, self.0.clone(), self.1);
    }
    fn default_text(&self, value: &Limit) -> Option<String> {
        Some(number_text(value))
    }
    fn in_preset(&self, preset: Preset, default: Limit) -> Limit {
        default.map(|value| number_in(preset, self.1, value))
    }
}

impl KeyKind<u64> for Count {
    type Schema = u64;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut u64) {
        reader.count(key, slot, self.0.clone(), self.1);
    }
    fn default_text(&self, value: &u64) -> Option<String> {
        Some(value.to_string())
    }
    fn in_preset(&self, preset: Preset, default: u64) -> u64 {
        number_in(preset, self.1, default)
    }
}

impl KeyKind<Limit> for Duration {
    type Schema = DurationValue;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut Limit) {
        reader.duration_limit(key, slot, self.0);
    }
    fn default_text(&self, value: &Limit) -> Option<String> {
        Some(duration_text(value))
    }
    fn in_preset(&self, preset: Preset, default: Limit) -> Limit {
        default.map(|value| number_in(preset, self.0, value))
    }
}

impl KeyKind<u64> for Duration {
    type Schema = DurationValue;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut u64) {
        reader.duration(key, slot, self.0);
    }
    fn default_text(&self, value: &u64) -> Option<String> {
        Some(duration_text(&Some(*value)))
    }
}

impl KeyKind<Limit> for Cost {
    type Schema = CostValue;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut Limit) {
        reader.cost(key, slot, self.0);
    }
    fn default_text(&self, value: &Limit) -> Option<String> {
        Some(value.map_or_else(|| "off".to_owned(), |micro| units::usd_value(micro).to_string()))
    }
}

impl KeyKind<bool> for Flag {
    type Schema = bool;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut bool) {
        reader.flag(key, slot, self.0);
    }
    fn default_text(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

impl KeyKind<bool> for HoldsInLoops {
    type Schema = bool;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut bool) {
        *slot |= reader.has(self.0) && !reader.has(key);
        reader.flag(key, slot, StricterDirection::More);
    }
}

impl<W: Keyword + JsonSchema> KeyKind<W> for Word {
    type Schema = W;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut W) {
        reader.keyword(key, slot);
    }
    fn default_text(&self, value: &W) -> Option<String> {
        Some(format!("`{}`", keyword_of(*value)))
    }
}

impl KeyKind<String> for Text {
    type Schema = String;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut String) {
        reader.text(key, slot);
    }
    fn default_text(&self, value: &String) -> Option<String> {
        Some(format!("`{value}`"))
    }
}

impl KeyKind<BTreeMap<String, String>> for Texts {
    type Schema = BTreeMap<String, String>;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut BTreeMap<String, String>) {
        reader.texts(key, slot);
    }
}

impl<S: Settings> KeyKind<S> for Nested {
    type Schema = S;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut S) {
        reader.section(key, slot);
    }
    fn in_preset(&self, preset: Preset, _default: S) -> S {
        S::preset(preset)
    }
}

impl<S: Settings> KeyKind<S> for Detector {
    type Schema = DetectorSetting<S>;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut S) {
        reader.section(key, slot);
    }
    fn in_preset(&self, preset: Preset, _default: S) -> S {
        S::preset(preset)
    }
}

/// The schema of a section under construction.
pub(crate) struct SchemaKeys<'g> {
    pub(crate) generator: &'g mut SchemaGenerator,
    properties: Map<String, Value>,
    only: Option<&'static [&'static str]>,
}

impl SchemaKeys<'_> {
    /// Whether the section has this key in its scope.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.only.is_none_or(|only| only.contains(&key))
    }

    /// Adds the keys of another schema.
    pub(crate) fn extend(&mut self, properties: &Value) {
        self.properties.extend(properties.as_object().cloned().into_iter().flatten());
    }

    /// Adds a key with its description.
    pub(crate) fn add(&mut self, key: &str, mut schema: Schema, doc: &str) {
        schema.insert("description".to_owned(), doc.into());
        self.properties.insert(key.to_owned(), schema.to_value());
    }
}

/// The schema of a map with a fixed set of keys.
pub(crate) fn object_schema(
    doc: &str,
    only: Option<&'static [&'static str]>,
    generator: &mut SchemaGenerator,
    describe: impl FnOnce(&mut SchemaKeys<'_>),
) -> Schema {
    let mut keys = SchemaKeys { generator, properties: Map::new(), only };
    describe(&mut keys);
    let object = json!({
        "type": "object", "description": doc, "properties": keys.properties, "additionalProperties": false,
    });
    Schema::try_from(object).unwrap_or_default()
}

/// Joins the lines of a doc comment.
pub(crate) fn doc_text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Declares a section of the policy; see the module.
macro_rules! settings {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident: $schema:literal {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident $(as $key:literal)?: $type:ty = $default:expr => $kind:expr
                    $(, in $preset:ident => $value:expr)*;
            )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                <$name as $crate::policy::settings::Settings>::preset($crate::policy::Preset::Workflow)
            }
        }

        impl $crate::policy::settings::PolicySection for $name {
            fn read_keys(&mut self, reader: &mut $crate::policy::settings::SectionReader<'_>) {
                $(
                    let key = $crate::policy::settings::key_name!($field $(, $key)?);
                    if reader.takes(key) {
                        $crate::policy::settings::KeyKind::read(&$kind, reader, key, &mut self.$field);
                    }
                )*
            }
        }

        impl $crate::policy::settings::Settings for $name {
            fn preset(preset: $crate::policy::Preset) -> Self {
                $name {
                    $($field: {
                        let default: $type = $default;
                        match preset.limits() {
                            $($crate::policy::Preset::$preset => $value,)*
                            preset => $crate::policy::settings::KeyKind::in_preset(&$kind, preset, default),
                        }
                    },)*
                }
            }

            fn describe(&self, keys: &mut $crate::policy::settings::SchemaKeys<'_>) {
                $(
                    let key = $crate::policy::settings::key_name!($field $(, $key)?);
                    if keys.has(key) {
                        let doc = $crate::policy::settings::doc_text(&[$($field_doc),+]);
                        $crate::policy::settings::KeyKind::describe(&$kind, key, &doc, &self.$field, keys);
                    }
                )*
            }
        }

        impl $crate::policy::settings::ScopeKeys for $name {}

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let doc = $crate::policy::settings::doc_text(&[$($doc),+]);
                $crate::policy::settings::object_schema(&doc, None, generator, |keys| {
                    $crate::policy::settings::Settings::describe(&$name::default(), keys);
                })
            }
        }
    };
}

/// Declares the part of a guard's settings that one scope may set.
macro_rules! scope_keys {
    ($(#[doc = $doc:literal])+ $name:ident: $schema:literal, $of:ty, $keys:expr) => {
        $(#[doc = $doc])+
        enum $name {}

        impl $crate::policy::settings::ScopeKeys for $name {
            const KEYS: Option<&'static [&'static str]> = Some(&$keys);
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let doc = $crate::policy::settings::doc_text(&[$($doc),+]);
                $crate::policy::settings::object_schema(&doc, Some(&$keys), generator, |keys| {
                    $crate::policy::settings::Settings::describe(&<$of>::default(), keys);
                })
            }
        }
    };
}

/// Declares the keywords of an enum, from the first to the last, and how strict each is, if they have an order.
macro_rules! keywords {
    ($type:ident { $($word:literal = $value:ident $(($strictness:literal))?),* $(,)? }) => {
        impl $crate::policy::settings::Keyword for $type {
            const KEYWORDS: &'static [(&'static str, $type)] = &[$(($word, $type::$value)),*];

            fn strictness(self) -> Option<u8> {
                match self {
                    $($type::$value => $crate::policy::settings::optional!($($strictness)?),)*
                }
            }
        }
    };
}

/// `Some` of a value, if there is one.
macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// The key of a field: its name, unless the field states another one.
macro_rules! key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident, $key:literal) => {
        $key
    };
}

pub(crate) use {key_name, keywords, optional, scope_keys, settings};
