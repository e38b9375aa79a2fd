//! The body of a request: a JSON object that is parsed before its operation is known.

use crate::Invalid;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// The maximum size of a request's body, in bytes. `import` and `edit` carry payloads and may fill a frame.
pub const MAX_BODY: usize = 256 << 10;

/// The fields of a request, parsed but not yet checked.
pub type Map = serde_json::Map<String, Value>;

/// A request's body before its sender's permission is checked, for which only `op` is read.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// Takes the bytes of a body. An empty body is read as an object without fields.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(if bytes.is_empty() { b"{}" } else { bytes })
    }

    #[must_use]
    pub fn len(self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The value of `op`, without storing the other fields. `None` if there is no `op`.
    ///
    /// # Errors
    /// The body is not a JSON object, or `op` is not a string.
    pub fn op(self) -> Result<Option<Cow<'a, str>>, Invalid> {
        #[derive(Deserialize)]
        struct Op<'t> {
            #[serde(borrow, default)]
            op: Option<OpField<'t>>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OpField<'t> {
            Text(#[serde(borrow)] Cow<'t, str>),
            Other(IgnoredAny),
        }
        match serde_json::from_slice(self.0).map_err(not_json)? {
            Op { op: None } => Ok(None),
            Op {
                op: Some(OpField::Text(op)),
            } => Ok(Some(op)),
            Op {
                op: Some(OpField::Other(_)),
            } => Err(Invalid::new(
                "invalid \"op\": expected the name of an operation as a string",
            )),
        }
    }

    /// All fields except `op`.
    ///
    /// # Errors
    /// The body is not a JSON object, or has a field twice.
    pub fn fields(self) -> Result<Map, Invalid> {
        let mut map = read_map(self.0)?;
        map.remove("op");
        Ok(map)
    }
}

/// Reads a JSON object in which no field is given twice.
///
/// # Errors
/// The input is not a JSON object, or has a field twice.
pub fn read_map(json: &[u8]) -> Result<Map, Invalid> {
    let UniqueFields(map) = serde_json::from_slice(json).map_err(not_json)?;
    Ok(map)
}

fn not_json(error: serde_json::Error) -> Invalid {
    Invalid::new(format!("the body is not a valid JSON object: {error}"))
}

/// A map that rejects a field that is given twice, instead of silently keeping the last value.
struct UniqueFields(Map);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = UniqueFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<UniqueFields, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if map.contains_key(&name) {
                let text = format!("the field \"{name}\" is given twice");
                return Err(serde::de::Error::custom(text));
            }
            map.insert(name, value);
        }
        Ok(UniqueFields(map))
    }
}
