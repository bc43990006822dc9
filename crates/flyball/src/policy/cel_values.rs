//! JSON as CEL values, for custom rules.
//!
//! CEL's own map is a hash map without a fixed order, so a rule such as `event.args.map(k, k)[0]` could give different
//! results on two machines. The map here is sorted. Whole numbers are always signed, so that `event.n + 1` works.

use std::collections::BTreeMap;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Iterator as CelIterator, Sizer};
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelNull, CelString, CelUInt, MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use serde_json::{Map, Number, Value};

/// Deeper levels of an event read as null. Rules do not need them, and this bounds the recursion.
const MAX_DEPTH: usize = 64;

/// A CEL map with string keys in sorted order.
#[derive(Clone, Debug)]
pub(super) struct SortedMap<'v> {
    entries: BTreeMap<String, Box<dyn Val + 'v>>,
    /// A copy of the keys, because a CEL iterator returns references to CEL values.
    keys: Vec<CelString<'v>>,
}

impl<'v> SortedMap<'v> {
    pub(super) fn new(entries: BTreeMap<String, Box<dyn Val + 'v>>) -> Self {
        let keys = entries.keys().map(|k| CelString::from(k.clone())).collect();
        SortedMap { entries, keys }
    }

    fn find(&self, key: &dyn Val) -> Option<&(dyn Val + 'v)> {
        let key = key.downcast_ref::<CelString>()?;
        self.entries.get(key.inner()).map(AsRef::as_ref)
    }
}

/// Converts JSON to a CEL value.
pub(super) fn from_json(value: &Value) -> Box<dyn Val + 'static> {
    convert(value, 0)
}

fn convert(value: &Value, depth: usize) -> Box<dyn Val + 'static> {
    if depth > MAX_DEPTH {
        return Box::new(CelNull);
    }
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(b) => Box::new(CelBool::from(*b)),
        Value::Number(n) => convert_number(n),
        Value::String(s) => Box::new(CelString::from(s.clone())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val>> = items.iter().map(|v| convert(v, depth + 1)).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(map) => Box::new(convert_object(map, depth)),
    }
}

fn convert_number(number: &Number) -> Box<dyn Val + 'static> {
    if let Some(n) = number.as_i64() {
        Box::new(CelInt::from(n))
    } else if let Some(n) = number.as_u64() {
        Box::new(CelUInt::from(n))
    } else {
        number.as_f64().map_or_else(|| Box::new(CelNull) as Box<dyn Val>, |n| Box::new(CelDouble::from(n)))
    }
}

fn convert_object(map: &Map<String, Value>, depth: usize) -> SortedMap<'static> {
    SortedMap::new(map.iter().map(|(k, v)| (k.clone(), convert(v, depth + 1))).collect())
}

impl Val for SortedMap<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn into_indexer<'w>(self: Box<Self>) -> Option<Box<dyn Indexer + 'w>>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        // The concrete type of `other` is not accessible, but its entries are.
        let (Some(size), Some(index)) = (other.as_sizer(), other.as_indexer()) else {
            return false;
        };
        *other.get_type() == MAP_TYPE
            && usize::try_from(*size.size().inner()) == Ok(self.entries.len())
            && self.entries.iter().all(|(key, value)| {
                index.get(&CelString::from(key.clone())).is_ok_and(|theirs| value.equals(theirs.as_ref()))
            })
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(self.clone())
    }
}

impl Container for SortedMap<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(key).is_some())
    }
}

fn missing_key(key: &dyn Val) -> ExecutionError {
    let name = key.downcast_ref::<CelString>().map_or("", |key| key.inner());
    ExecutionError::no_such_key(name)
}

impl Indexer for SortedMap<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.find(key).map(CowVal::Borrowed).ok_or_else(|| missing_key(key))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let mut map = self;
        key.downcast_ref::<CelString>()
            .and_then(|name| map.entries.remove(name.inner()))
            .map(|value| value as Box<dyn Val + 'w>)
            .ok_or_else(|| missing_key(key))
    }
}

impl Iterable for SortedMap<'_> {
    fn iter<'b, 'w>(&'b self) -> Box<dyn CelIterator<'b, 'w> + 'b>
    where
        Self: 'w,
    {
        Box::new(SortedMapKeys(self.keys.iter()))
    }
}

impl Sizer for SortedMap<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.entries.len()).unwrap_or(i64::MAX))
    }
}

struct SortedMapKeys<'b, 'v>(std::slice::Iter<'b, CelString<'v>>);

impl<'b, 'v: 'w, 'w> CelIterator<'b, 'w> for SortedMapKeys<'b, 'v>
where
    'v: 'b,
{
    fn next(&mut self) -> Option<&'b (dyn Val + 'w)> {
        self.0.next().map(|key| key as &(dyn Val + 'w))
    }
}
