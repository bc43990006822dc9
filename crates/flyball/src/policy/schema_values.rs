//! Schemas of single values of a policy file.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema as schema};

use super::GuardMode;

/// A count, or `off` (also `0`, `false` or null) for no limit.
pub(crate) struct LimitValue;
/// A duration: `90s`, `10m`, `4h`, `1h30m`, a number of milliseconds, or `off` for no limit.
pub(crate) struct DurationValue;
/// An amount in dollars such as `2.50`, or `off` for no limit.
pub(crate) struct CostValue;
/// Version of the file format: 1.
pub(super) struct VersionValue;
/// Version of the decision rules: 1 or 2.
pub(super) struct RulesVersionNumber;

macro_rules! value_schema {
    ($type:ident, $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema!($schema)
            }
        }
    };
}

value_schema!(LimitValue, "Limit", {
    "description": "A count, or off (also 0, false or null) for no limit.",
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^(off|[0-9][0-9_]*)$"},
        {"const": false},
        {"type": "null"}
    ]
});
value_schema!(DurationValue, "Duration", {
    "description": "A duration: 90s, 10m, 4h, 1h30m, a number of milliseconds, or off for no limit.",
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^(off|[0-9][0-9_]*|([0-9]+(\\.[0-9]+)? *(ms|s|m|h|d) *)+)$"},
        {"const": false},
        {"type": "null"}
    ]
});
value_schema!(CostValue, "Cost", {
    "description": "An amount in dollars such as 2.50, or off for no limit.",
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": "^(off|\\$?[0-9]+(\\.[0-9]+)?)$"},
        {"const": false},
        {"type": "null"}
    ]
});
value_schema!(VersionValue, "Version", {"description": "Version of the file format.", "const": 1});
value_schema!(RulesVersionNumber, "RulesVersion", {"description": "Version of the decision rules.", "enum": [1, 2]});

/// A guard: its keys, or only its mode.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(crate) enum GuardSetting<T> {
    /// The guard's keys.
    Keys(T),
    /// A mode.
    Mode(GuardMode),
    /// `false` means `off`, `true` means `staged`.
    Switch(bool),
    /// An empty value changes nothing.
    Nothing(()),
}

/// A detector: its keys, or `off`.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(crate) enum DetectorSetting<T> {
    /// The detector's keys.
    Keys(T),
    /// Off.
    Off(OffWord),
    /// `false` means off.
    Switch(bool),
    /// An empty value changes nothing.
    Nothing(()),
}

/// Off.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum OffWord {
    /// Off.
    Off,
}
