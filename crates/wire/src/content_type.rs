//! The content types of codecs in HTTP.

use crate::Codec;

/// The codecs that a content type names. Every other codec is `application/octet-stream`, and every other type is raw.
const TYPES: [(Codec, &str); 3] = [
    (Codec::JSON, "application/json"),
    (Codec::PROTOBUF, "application/x-protobuf"),
    (Codec::MSGPACK, "application/msgpack"),
];

impl Codec {
    /// The content type of a body with this codec.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        let known = TYPES.iter().find(|(codec, _)| *codec == self);
        known.map_or("application/octet-stream", |(_, name)| *name)
    }

    /// The codec of a body with this content type, whose parameters (`; charset=utf-8`) do not matter.
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Self {
        let (essence, _) = content_type.split_once(';').unwrap_or((content_type, ""));
        let is_named = |name: &str| essence.trim().eq_ignore_ascii_case(name);
        let known = TYPES.iter().find(|(_, name)| is_named(name));
        known.map_or(Self::RAW, |(codec, _)| *codec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_names_a_codec_and_back() {
        for (codec, name) in TYPES {
            assert_eq!(Codec::of_content_type(name), codec);
            assert_eq!(codec.content_type(), name);
        }
        let json = " Application/JSON ; charset=utf-8";
        assert_eq!(Codec::of_content_type(json), Codec::JSON);
        for other in ["", "text/html", "application/jsonp"] {
            assert_eq!(Codec::of_content_type(other), Codec::RAW);
        }
        assert_eq!(Codec::PHP.content_type(), "application/octet-stream");
    }
}
