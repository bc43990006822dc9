//! TOML with the place of every key.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Code;
use super::parse::Reading;
use super::places::Lines;

struct Reader<'t, 'r> {
    lines: Lines<'t>,
    reading: &'r mut Reading,
}

/// An error has been recorded; there is nothing more to say.
struct Stop;

pub(super) fn read(text: &str, reading: &mut Reading) -> Option<Value> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let place = error.span().map(|span| lines.place(span.start));
        let code = if error.message().contains("duplicate key") { Code::DuplicateKey } else { Code::Syntax };
        let what = error.message().lines().next().unwrap_or("not TOML");
        reading.error(code, place, what, "check this line");
    }
    if !errors.is_empty() {
        return None;
    }
    let mut reader = Reader { lines, reading };
    reader.table(table.get_ref(), 0).ok()
}

impl Reader<'_, '_> {
    fn table(&mut self, table: &DeTable<'_>, offset: usize) -> Result<Value, Stop> {
        let mut map = Map::new();
        for (key, value) in table.iter() {
            if !self.reading.room(map.len(), self.lines.place(offset)) {
                return Err(Stop);
            }
            let name = key.get_ref().to_string();
            self.reading.enter(name.clone(), self.lines.place(key.span().start));
            let value = self.value(value)?;
            self.reading.leave();
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) -> Result<Value, Stop> {
        let place = self.lines.place(value.span().start);
        if !self.reading.fits(1, 0, place) {
            return Err(Stop);
        }
        let scalar = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, value.span().start),
            DeValue::Array(items) => {
                let mut list = Vec::new();
                for item in items.iter() {
                    if !self.reading.room(list.len(), place) {
                        return Err(Stop);
                    }
                    self.reading.enter(list.len().to_string(), self.lines.place(item.span().start));
                    list.push(self.value(item)?);
                    self.reading.leave();
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
            self.reading.fail(Some(place), "a number that is too large", "write a smaller number, or off");
            Stop
        })
    }
}
