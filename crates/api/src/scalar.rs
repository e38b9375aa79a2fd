//! The types of the fields of requests.

use crate::Invalid;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use uuid::Uuid;

/// Why a value is not valid for a type.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadError {
    /// The value is not valid; it is returned for the message.
    Value(Value),
    /// Something inside the value is invalid.
    Invalid(Invalid),
}

/// A type that the value of a field can have.
pub trait Scalar: Sized {
    /// The description of a valid value, such as "a number from 1 to 1000".
    fn expected() -> Cow<'static, str>;

    /// The JSON schema of a valid value.
    fn schema() -> Value {
        json!({"type": "string"})
    }

    /// # Errors
    /// The value is not valid for this type.
    fn read(value: Value) -> Result<Self, ReadError>;

    /// The value of a field that is left out; `None` if the field is required.
    fn absent() -> Option<Self> {
        None
    }

    fn is_absent(&self) -> bool {
        false
    }

    /// A suggestion of a valid value, if what was meant can be guessed.
    fn hint(_wrong: &Value) -> Option<String> {
        None
    }
}

impl<T: Scalar> Scalar for Option<T> {
    fn expected() -> Cow<'static, str> {
        T::expected()
    }

    fn schema() -> Value {
        T::schema()
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn hint(wrong: &Value) -> Option<String> {
        T::hint(wrong)
    }
}

/// A field that is left out is false.
impl Scalar for bool {
    fn expected() -> Cow<'static, str> {
        "true or false".into()
    }

    fn schema() -> Value {
        json!({"type": "boolean"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        value.as_bool().ok_or(ReadError::Value(value))
    }

    fn absent() -> Option<Self> {
        Some(false)
    }

    fn is_absent(&self) -> bool {
        !self
    }
}

/// A string of 1 to `MAX` bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize>(pub String);

impl<const MAX: usize> Scalar for Text<MAX> {
    fn expected() -> Cow<'static, str> {
        format!("a string of 1 to {MAX} bytes").into()
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": MAX})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        match value {
            Value::String(text) if (1..=MAX).contains(&text.len()) => Ok(Self(text)),
            value => Err(ReadError::Value(value)),
        }
    }

    fn hint(wrong: &Value) -> Option<String> {
        matches!(wrong, Value::Number(_) | Value::Bool(_)).then(|| format!("write \"{wrong}\""))
    }
}

/// Any string.
impl Scalar for String {
    fn expected() -> Cow<'static, str> {
        "a string".into()
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        match value {
            Value::String(text) => Ok(text),
            value => Err(ReadError::Value(value)),
        }
    }

    fn hint(wrong: &Value) -> Option<String> {
        Text::<1>::hint(wrong)
    }
}

/// The name of a queue or a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct QueueName(pub String);

impl Scalar for QueueName {
    fn expected() -> Cow<'static, str> {
        "the name of a queue (1 to 255 characters from A-Z a-z 0-9 _ . : / @ -)".into()
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9_.:/@-]{1,255}$"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        match value {
            Value::String(name) if stoker_wire::check_name(name.as_bytes()).is_ok() => {
                Ok(Self(name))
            }
            value => Err(ReadError::Value(value)),
        }
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Number<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Scalar for Number<MIN, MAX> {
    fn expected() -> Cow<'static, str> {
        match MAX {
            u64::MAX => format!("a whole number of at least {MIN}").into(),
            _ => format!("a whole number from {MIN} to {MAX}").into(),
        }
    }

    fn schema() -> Value {
        match MAX {
            u64::MAX => json!({"type": "integer", "minimum": MIN}),
            _ => json!({"type": "integer", "minimum": MIN, "maximum": MAX}),
        }
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let number = value.as_u64().filter(|n| (MIN..=MAX).contains(n));
        number.map(Self).ok_or(ReadError::Value(value))
    }

    fn hint(wrong: &Value) -> Option<String> {
        let number: u64 = wrong.as_str()?.parse().ok()?;
        (MIN..=MAX)
            .contains(&number)
            .then(|| format!("write {number} without quotes"))
    }
}

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Scalar for Millis {
    fn expected() -> Cow<'static, str> {
        "a whole number of milliseconds, such as 604800000 for 7 days".into()
    }

    fn schema() -> Value {
        json!({"type": "integer", "minimum": 0})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        value.as_u64().map(Self).ok_or(ReadError::Value(value))
    }
}

/// The maximum number of tasks that run at once, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Of(u32),
    None,
}

impl Scalar for Limit {
    fn expected() -> Cow<'static, str> {
        "a whole number from 1 to 1000000, or \"none\"".into()
    }

    fn schema() -> Value {
        json!({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 1_000_000}, {"const": "none"}]})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let number = value.as_u64().filter(|n| (1..=1_000_000).contains(n));
        match (number, value.as_str()) {
            (Some(number), _) => Ok(Self::Of(number as u32)),
            (None, Some("none")) => Ok(Self::None),
            _ => Err(ReadError::Value(value)),
        }
    }

    fn hint(wrong: &Value) -> Option<String> {
        matches!(wrong, Value::Null).then(|| "for no limit write \"none\"".to_owned())
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Of(number) => serializer.serialize_u32(*number),
            Self::None => serializer.serialize_str("none"),
        }
    }
}

/// A job's id.
impl Scalar for Uuid {
    fn expected() -> Cow<'static, str> {
        "a job's id (a UUID)".into()
    }

    fn schema() -> Value {
        json!({"type": "string", "format": "uuid"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let id = value.as_str().and_then(|text| text.parse().ok());
        id.ok_or(ReadError::Value(value))
    }
}

/// A list. It must not be empty if the field is given.
impl<T: Scalar> Scalar for Vec<T> {
    fn expected() -> Cow<'static, str> {
        format!("a list of one or more items; each is {}", T::expected()).into()
    }

    fn schema() -> Value {
        json!({"type": "array", "minItems": 1, "items": T::schema()})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        match value {
            Value::Array(values) if !values.is_empty() => {
                let read = |(number, value)| {
                    T::read(value).map_err(|wrong| match wrong {
                        ReadError::Invalid(invalid) => ReadError::Invalid(invalid.of_item(number)),
                        wrong => wrong,
                    })
                };
                (1..).zip(values).map(read).collect()
            }
            value => Err(ReadError::Value(value)),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn hint(wrong: &Value) -> Option<String> {
        T::hint(wrong)
    }
}
