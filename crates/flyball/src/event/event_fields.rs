//! The fields of an event as received, sorted by name.
//!
//! Almost every event has a dozen fields or fewer, and a list that short is faster to read, search and take apart than
//! a map. An object with very many fields is read as a map, so that a client cannot make parsing slow.

use super::event_parser::{BoundedValueSeed, check_entry_count, duplicate_key};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Up to this many fields are searched linearly.
const LINEAR_SEARCH_MAX: usize = 32;

/// Fields by name, unique and sorted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct EventFields<'a>(Vec<(Cow<'a, str>, Value)>);

impl<'a> EventFields<'a> {
    fn position(&self, name: &str) -> Option<usize> {
        if self.0.len() <= LINEAR_SEARCH_MAX {
            return self.0.iter().position(|(key, _)| key == name);
        }
        self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()
    }

    /// Returns a field.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let (_, value) = self.0.get(self.position(name)?)?;
        Some(value)
    }

    /// Removes and returns a field.
    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.position(name)?;
        Some(self.0.remove(place).1)
    }

    /// All fields, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// The remaining fields as a map.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()
    }

    /// Sorts a short list of fields.
    fn from_unsorted(mut list: Vec<(Cow<'a, str>, Value)>) -> Self {
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        EventFields(list)
    }
}

/// Deserializes an object as fields.
pub(super) struct EventFieldsSeed;

impl<'de> DeserializeSeed<'de> for EventFieldsSeed {
    type Value = EventFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EventFields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventFieldsSeed {
    type Value = EventFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<EventFields<'de>, A::Error> {
        let inner = BoundedValueSeed::default().deeper()?;
        let mut list: Vec<(Cow<'de, str>, Value)> = Vec::with_capacity(12);
        while let Some(key) = access.next_key_seed(FieldNameSeed)? {
            if list.iter().any(|(known, _)| *known == key) {
                return Err(duplicate_key(&key));
            }
            let value = access.next_value_seed(inner)?;
            list.push((key, value));
            if list.len() > LINEAR_SEARCH_MAX {
                let map = list.into_iter().map(|(key, value)| (key.into_owned(), value)).collect();
                return read_large_object(map, inner, access);
            }
        }
        Ok(EventFields::from_unsorted(list))
    }
}

/// Continues reading an object that turned out to have many fields.
fn read_large_object<'de, A: MapAccess<'de>>(
    mut map: Map<String, Value>,
    inner: BoundedValueSeed,
    mut access: A,
) -> Result<EventFields<'de>, A::Error> {
    inner.read_entries(&mut map, &mut access)?;
    check_entry_count(map.len())?;
    Ok(EventFields(map.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect()))
}

/// Reads a key, without copying it if it contains no escapes.
struct FieldNameSeed;

impl<'de> DeserializeSeed<'de> for FieldNameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for FieldNameSeed {
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
