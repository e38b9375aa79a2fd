//! Answers, declared field by field.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A field of an answer, for the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerField {
    pub name: &'static str,
    /// The field's type in Rust.
    pub kind: &'static str,
    pub doc: &'static str,
}

/// An answer of the server. Later versions may add fields, so readers ignore unknown ones.
pub trait Answer: Serialize + DeserializeOwned {
    const NAME: &'static str;
    const DOC: &'static str;
    const FIELDS: &'static [AnswerField];
}

/// Declares an answer, or an object in an answer. The fields of a `flatten`ed part are in the same JSON object.
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
