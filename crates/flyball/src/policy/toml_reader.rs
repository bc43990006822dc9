//! TOML parser that records the position of every key.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::policy_error::PolicyErrorCode;
use super::policy_parser::ParseContext;
use super::positions::LineIndex;

struct TomlReader<'t, 'r> {
    lines: LineIndex<'t>,
    context: &'r mut ParseContext,
}

/// Parsing stopped; the error is already recorded.
struct TomlAborted;

pub(super) fn read_toml(text: &str, reading: &mut ParseContext) -> Option<Value> {
    let lines = LineIndex::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let place = error.span().map(|span| lines.position(span.start));
        let code = if error.message().contains("duplicate key") {
            PolicyErrorCode::DuplicateKey
        } else {
            PolicyErrorCode::Syntax
        };
        let what = error.message().lines().next().unwrap_or("not TOML");
        reading.add_error(code, place, what, "check this line");
    }
    if !errors.is_empty() {
        return None;
    }
    let mut reader = TomlReader { lines, context: reading };
    reader.table(table.get_ref(), 0).ok()
}

impl TomlReader<'_, '_> {
    fn table(&mut self, table: &DeTable<'_>, offset: usize) -> Result<Value, TomlAborted> {
        let mut map = Map::new();
        for (key, value) in table.iter() {
            if !self.context.check_entries(map.len(), self.lines.position(offset)) {
                return Err(TomlAborted);
            }
            let name = key.get_ref().to_string();
            self.context.enter(name.clone(), self.lines.position(key.span().start));
            let value = self.value(value)?;
            self.context.leave();
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) -> Result<Value, TomlAborted> {
        let place = self.lines.position(value.span().start);
        if !self.context.check_size(1, 0, place) {
            return Err(TomlAborted);
        }
        let scalar = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, value.span().start),
            DeValue::Array(items) => {
                let mut list = Vec::new();
                for item in items.iter() {
                    if !self.context.check_entries(list.len(), place) {
                        return Err(TomlAborted);
                    }
                    self.context.enter(list.len().to_string(), self.lines.position(item.span().start));
                    list.push(self.value(item)?);
                    self.context.leave();
                }
                return Ok(Value::Array(list));
            }
            DeValue::String(text) => Some(Value::from(text.as_ref())),
            DeValue::Boolean(flag) => Some(Value::Bool(*flag)),
            DeValue::Datetime(moment) => Some(Value::from(moment.to_string())),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                i64::from_str_radix(&digits, number.radix()).ok().map(Value::from)
            }
            DeValue::Float(number) => {
                let digits = number.as_str().replace('_', "");
                digits.parse().ok().and_then(Number::from_f64).map(Value::Number)
            }
        };
        scalar.ok_or_else(|| {
            self.context.syntax_error(
                Some(place),
                "the number is too large",
                "write a smaller number, or off",
            );
            TomlAborted
        })
    }
}
