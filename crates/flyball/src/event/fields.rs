//! The fields of an event as they came, in the order of their names: a short list, because an event has few of them.
//!
//! Almost every event has a dozen fields or less, and a list of those is read, searched and taken apart more quickly
//! than a map. One with very many is read as a map, so that nobody can make it slow.

use super::parse::{Bounded, duplicate, too_many};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// How many fields are compared with each other one by one.
const FEW: usize = 32;

/// Fields by name, each once, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Value)>);

impl<'a> Fields<'a> {
    fn place(&self, name: &str) -> Option<usize> {
        if self.0.len() <= FEW {
            return self.0.iter().position(|(key, _)| key == name);
        }
        self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()
    }

    /// A field.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let (_, value) = self.0.get(self.place(name)?)?;
        Some(value)
    }

    /// Takes a field out.
    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.place(name)?;
        Some(self.0.remove(place).1)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// What is left, as a map.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()
    }

    /// The few fields that were read, put in order.
    fn few(mut list: Vec<(Cow<'a, str>, Value)>) -> Self {
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Fields(list)
    }
}

/// Reads an object as fields.
pub(super) struct Top;

impl<'de> DeserializeSeed<'de> for Top {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields<'de>, A::Error> {
        let inner = Bounded::default().deeper()?;
        let mut list: Vec<(Cow<'de, str>, Value)> = Vec::with_capacity(12);
        while let Some(key) = access.next_key_seed(Key)? {
            if list.iter().any(|(known, _)| *known == key) {
                return Err(duplicate(&key));
            }
            let value = access.next_value_seed(inner)?;
            list.push((key, value));
            if list.len() > FEW {
                let map = list.into_iter().map(|(key, value)| (key.into_owned(), value)).collect();
                return many(map, inner, access);
            }
        }
        Ok(Fields::few(list))
    }
}

/// Goes on reading an object that turned out to have many fields.
fn many<'de, A: MapAccess<'de>>(
    mut map: Map<String, Value>,
    inner: Bounded,
    mut access: A,
) -> Result<Fields<'de>, A::Error> {
    inner.entries(&mut map, &mut access)?;
    too_many(map.len())?;
    Ok(Fields(map.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect()))
}

/// Reads a key, without copying it if it stands in the line as it is.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
