//! Structs that describe their fields: name, valid values and meaning.

use crate::{Invalid, Map, ReadError, Scalar};
use serde_json::Value;

/// A field of a request, for messages and for the reference page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// The description of a valid value, such as "a number from 1 to 1000".
    pub expected: String,
    /// The JSON schema of a valid value.
    pub schema: Value,
    pub required: bool,
    pub doc: &'static str,
}

/// A type that is read field by field from a JSON object.
pub trait Fields: Sized {
    fn fields() -> Vec<Field>;

    /// Removes the fields of this type from the map and reads them. Fields that remain in the map are unknown.
    ///
    /// # Errors
    /// A field is missing or invalid, or fields contradict each other.
    fn take(map: &mut Map) -> Result<Self, Invalid>;

    /// Reads a map that has no fields but the fields of this type.
    ///
    /// # Errors
    /// Those of [`Fields::take`], or a field is unknown.
    fn read(mut map: Map) -> Result<Self, Invalid> {
        let fields = Self::fields();
        let unknown = map
            .keys()
            .find(|name| fields.iter().all(|field| field.name != *name));
        if let Some(name) = unknown {
            let hint = crate::suggest(name, fields.iter().map(|field| field.name));
            return Err(Invalid::new(format!("unknown field \"{name}\": {hint}")));
        }
        Self::take(&mut map)
    }
}

/// Reads a value that is an object.
pub(crate) fn object<T: Fields>(value: Value) -> Result<T, ReadError> {
    match value {
        Value::Object(map) => fields_without_nulls(map).map_err(ReadError::Invalid),
        value => Err(ReadError::Value(value)),
    }
}

/// Reads the fields of an exported job. Earlier versions exported `null` for missing values.
pub(crate) fn fields_without_nulls<T: Fields>(map: Map) -> Result<T, Invalid> {
    let given = map.into_iter().filter(|(_, value)| !value.is_null());
    T::read(given.collect())
}

/// Removes one field from a map and reads it.
pub(crate) fn take<T: Scalar>(map: &mut Map, name: &str) -> Result<T, Invalid> {
    let Some(value) = map.remove(name) else {
        let missing = || {
            let text = format!("missing field \"{name}\": expected {}", T::expected());
            Invalid::new(text)
        };
        return T::absent().ok_or_else(missing);
    };
    T::read(value).map_err(|wrong| match wrong {
        ReadError::Value(value) => {
            let hint = match (&value, T::absent().is_some()) {
                (Value::Null, true) => "; omit the field instead".to_owned(),
                _ => T::hint(&value).map_or(String::new(), |hint| format!("; {hint}")),
            };
            let (expected, got) = (T::expected(), shorten(&value));
            Invalid::new(format!(
                "invalid \"{name}\": expected {expected}, got {got}{hint}"
            ))
        }
        ReadError::Invalid(invalid) => invalid.within(format_args!("in \"{name}\"")),
    })
}

/// Formats a value for a message. A long value is shortened.
fn shorten(value: &Value) -> String {
    const MAX_LEN: usize = 60;
    match value {
        Value::Array(values) if values.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value => {
            let text = value.to_string();
            match text.char_indices().nth(MAX_LEN) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

/// Whether a field is left out when a request is written.
pub(crate) fn is_absent<T: Scalar>(value: &T) -> bool {
    value.is_absent()
}

/// Declares a struct that implements [`Fields`]. `flatten` names other such structs, whose fields are in the same JSON
/// object. `check` names a function that rejects fields that contradict each other.
macro_rules! fields {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $(flatten $part:ident: $part_type:ty,)*
            $($(#[doc = $field_doc:literal])* pub $field:ident: $type:ty = $json:literal,)*
        }
        $(check $check:path;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        pub struct $name {
            $(#[serde(flatten)] pub $part: $part_type,)*
            $($(#[doc = $field_doc])*
            #[serde(rename = $json, skip_serializing_if = "crate::field::is_absent")]
            pub $field: $type,)*
        }

        impl $crate::Fields for $name {
            fn fields() -> Vec<$crate::Field> {
                let parts: &[Vec<$crate::Field>] =
                    &[$(<$part_type as $crate::Fields>::fields()),*];
                let own: &[$crate::Field] = &[$($crate::Field {
                    name: $json,
                    expected: <$type as $crate::Scalar>::expected().into_owned(),
                    schema: <$type as $crate::Scalar>::schema(),
                    required: <$type as $crate::Scalar>::absent().is_none(),
                    doc: concat!($($field_doc),*),
                }),*];
                parts.iter().flatten().chain(own).cloned().collect()
            }

            #[allow(unused_variables, reason = "there may be no field at all")]
            fn take(map: &mut $crate::Map) -> Result<Self, $crate::Invalid> {
                let value = Self {
                    $($part: <$part_type as $crate::Fields>::take(map)?,)*
                    $($field: $crate::field::take(map, $json)?,)*
                };
                $($check(&value)?;)?
                Ok(value)
            }
        }
    };
}
