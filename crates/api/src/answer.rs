//! Answers, declared field by field.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A field of an answer, for the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerField {
    pub name: &'static str,
    /// Its type in Rust's words.
    pub kind: &'static str,
    pub doc: &'static str,
}

/// What the broker answers. Fields may be added: who reads one ignores what it does not know.
pub trait Answer: Serialize + DeserializeOwned {
    const NAME: &'static str;
    const DOC: &'static str;
    const FIELDS: &'static [AnswerField];
}

/// Declares an answer, or an object in one. A `flatten`ed part stands in the same object.
macro_rules! answer {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $($(#[doc = $field_doc:literal])* $(#[serde($($serde:tt)*)])* pub $field:ident: $type:ty = $json:literal,)*
            $(flatten $part:ident: $part_type:ty,)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $field_doc])* $(#[serde($($serde)*)])* #[serde(rename = $json)] pub $field: $type,)*
            $(#[serde(flatten)] pub $part: $part_type,)*
        }

        impl $crate::Answer for $name {
            const NAME: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc),*);
            const FIELDS: &'static [$crate::AnswerField] = &[$($crate::AnswerField {
                name: $json,
                kind: stringify!($type),
                doc: concat!($($field_doc),*),
            }),*];
        }
    };
}
