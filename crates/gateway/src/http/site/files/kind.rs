//! The content types of files.

/// A content type, and whether files of this type become much smaller when they are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) is_compressible: bool,
}

/// The type of files whose extension is not in the table.
const UNKNOWN: Kind = Kind {
    name: "application/octet-stream",
    is_compressible: false,
};
/// The length of the longest extension in the table.
const MAX_EXTENSION: usize = 11;

/// Returns the type of a file by the extension of its name.
pub(crate) fn kind(path: &[u8]) -> Kind {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else {
        return UNKNOWN;
    };
    let extension = &name[dot + 1..];
    let mut lower = [0; MAX_EXTENSION];
    let Some(lower) = lower.get_mut(..extension.len()) else {
        return UNKNOWN;
    };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    kind_of_extension(lower)
}

fn kind_of_extension(extension: &[u8]) -> Kind {
    let text = |name| Kind {
        name,
        is_compressible: true,
    };
    let packed = |name| Kind {
        name,
        is_compressible: false,
    };
    match extension {
        b"html" | b"htm" => text("text/html; charset=utf-8"),
        b"css" => text("text/css; charset=utf-8"),
        b"js" | b"mjs" | b"cjs" => text("text/javascript; charset=utf-8"),
        b"json" | b"map" => text("application/json"),
        b"jsonld" => text("application/ld+json"),
        b"geojson" => text("application/geo+json"),
        b"webmanifest" => text("application/manifest+json"),
        b"txt" | b"text" | b"log" => text("text/plain; charset=utf-8"),
        b"md" | b"markdown" => text("text/markdown; charset=utf-8"),
        b"csv" => text("text/csv; charset=utf-8"),
        b"tsv" => text("text/tab-separated-values; charset=utf-8"),
        b"ics" => text("text/calendar; charset=utf-8"),
        b"vcf" => text("text/vcard; charset=utf-8"),
        b"vtt" => text("text/vtt; charset=utf-8"),
        b"xml" | b"xsl" => text("text/xml; charset=utf-8"),
        b"rss" => text("application/rss+xml"),
        b"atom" => text("application/atom+xml"),
        b"xhtml" => text("application/xhtml+xml"),
        b"yaml" | b"yml" => text("application/yaml"),
        b"svg" => text("image/svg+xml"),
        b"ico" => text("image/x-icon"),
        b"bmp" => text("image/bmp"),
        b"png" => packed("image/png"),
        b"jpg" | b"jpeg" => packed("image/jpeg"),
        b"gif" => packed("image/gif"),
        b"webp" => packed("image/webp"),
        b"avif" => packed("image/avif"),
        b"jxl" => packed("image/jxl"),
        b"heic" => packed("image/heic"),
        b"tif" | b"tiff" => packed("image/tiff"),
        b"ttf" => text("font/ttf"),
        b"otf" => text("font/otf"),
        b"woff" => packed("font/woff"),
        b"woff2" => packed("font/woff2"),
        b"eot" => text("application/vnd.ms-fontobject"),
        b"mp3" => packed("audio/mpeg"),
        b"m4a" => packed("audio/mp4"),
        b"ogg" | b"oga" | b"opus" => packed("audio/ogg"),
        b"flac" => packed("audio/flac"),
        b"wav" => packed("audio/wav"),
        b"weba" => packed("audio/webm"),
        b"mp4" | b"m4v" => packed("video/mp4"),
        b"webm" => packed("video/webm"),
        b"ogv" => packed("video/ogg"),
        b"mov" => packed("video/quicktime"),
        b"m3u8" => text("application/vnd.apple.mpegurl"),
        b"ts" => packed("video/mp2t"),
        b"wasm" => text("application/wasm"),
        b"pdf" => packed("application/pdf"),
        b"rtf" => text("application/rtf"),
        b"epub" => packed("application/epub+zip"),
        b"zip" => packed("application/zip"),
        b"gz" | b"tgz" => packed("application/gzip"),
        b"bz2" => packed("application/x-bzip2"),
        b"xz" => packed("application/x-xz"),
        b"zst" => packed("application/zstd"),
        b"7z" => packed("application/x-7z-compressed"),
        b"tar" => text("application/x-tar"),
        b"doc" => text("application/msword"),
        b"xls" => text("application/vnd.ms-excel"),
        b"ppt" => text("application/vnd.ms-powerpoint"),
        b"docx" => {
            packed("application/vnd.openxmlformats-officedocument.wordprocessingml.document")
        }
        b"xlsx" => packed("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        b"pptx" => {
            packed("application/vnd.openxmlformats-officedocument.presentationml.presentation")
        }
        b"odt" => packed("application/vnd.oasis.opendocument.text"),
        b"ods" => packed("application/vnd.oasis.opendocument.spreadsheet"),
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_the_last_extension() {
        for (path, name) in [
            ("app.css", "text/css; charset=utf-8"),
            ("a.b/c/APP.MIN.JS", "text/javascript; charset=utf-8"),
            ("site.webmanifest", "application/manifest+json"),
            ("app.css.gz", "application/gzip"),
            ("a.css/b", "application/octet-stream"),
            ("css", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.thisextensionislong", "application/octet-stream"),
            ("", "application/octet-stream"),
            ("a.\u{e4}", "application/octet-stream"),
        ] {
            assert_eq!(kind(path.as_bytes()).name, name, "{path}");
        }
        assert!(kind(b"a.css").is_compressible && !kind(b"a.png").is_compressible);
    }
}
