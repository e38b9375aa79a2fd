//! The file name that a request's path stands for.

use std::borrow::Cow;

/// The maximum length of a decoded path in bytes; the kernel accepts no longer one.
const MAX_PATH: usize = 4_095;
/// The only directory whose name begins with a dot and that is served (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// The meaning of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A path relative to the document root, without an empty, `.` or `..` part. Empty for the root itself.
    File(Cow<'a, [u8]>),
    /// The same with a slash at the end.
    Directory(Cow<'a, [u8]>),
    /// The path cannot name a file of a site.
    None,
    /// Only a client that tries to reach protected files sends such a path.
    Hostile,
}

/// Decodes the path of a request once. `raw` is the path as the client sent it, without the query.
pub(crate) fn target(raw: &[u8]) -> Target<'_> {
    let Some(rest) = raw.strip_prefix(b"/") else {
        // The `*` of OPTIONS.
        return Target::None;
    };
    let Some(path) = decode(rest) else {
        return Target::Hostile;
    };
    if path.contains(&0)
        || path
            .split(is_slash)
            .any(|part| part == b".." || part == b".")
    {
        return Target::Hostile;
    }
    // An encoded slash is part of a name, and no file has such a name.
    let has_encoded_slash = slashes(&path) != slashes(rest);
    if has_encoded_slash || path.contains(&b'\\') || path.len() > MAX_PATH {
        return Target::None;
    }
    if path.is_empty() {
        return Target::Directory(path);
    }
    let is_directory = path.ends_with(b"/");
    let path = without_slash(path, is_directory);
    if path.split(|byte| *byte == b'/').any(<[u8]>::is_empty) || is_hidden(&path) {
        return Target::None;
    }
    match is_directory {
        true => Target::Directory(path),
        false => Target::File(path),
    }
}

/// Whether a part of a relative path begins with a dot, except for `.well-known` at its beginning.
pub(crate) fn is_hidden(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/').enumerate();
    parts.any(|(at, part)| part.starts_with(b".") && !(at == 0 && part == WELL_KNOWN))
}

/// Whether a file of this name may hold the source of a script: one of `extensions` is anywhere in its name, in any case,
/// as in `index.PHP`, `index.php.bak`, `index.php~` and `index.php.gz`.
pub(crate) fn is_script(path: &[u8], extensions: &[String]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let mut parts = name.split(|byte| *byte == b'.').skip(1);
    parts.any(|part| {
        let part = part.strip_suffix(b"~").unwrap_or(part);
        let mut extensions = extensions.iter();
        extensions.any(|extension| extension.as_bytes().eq_ignore_ascii_case(part))
    })
}

fn is_slash(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

fn slashes(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

fn without_slash(path: Cow<'_, [u8]>, is_directory: bool) -> Cow<'_, [u8]> {
    let len = path.len() - usize::from(is_directory);
    match path {
        Cow::Borrowed(path) => Cow::Borrowed(&path[..len]),
        Cow::Owned(mut path) => {
            path.truncate(len);
            Cow::Owned(path)
        }
    }
}

/// Replaces `%2e` and similar escapes. `None` if an escape is not followed by two hexadecimal digits.
fn decode(raw: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !raw.contains(&b'%') {
        return Some(Cow::Borrowed(raw));
    }
    let mut path = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied();
    while let Some(byte) = rest.next() {
        path.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            byte => byte,
        });
    }
    Some(Cow::Owned(path))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str) -> Target<'_> {
        Target::File(Cow::Borrowed(path.as_bytes()))
    }

    #[test]
    fn names_are_decoded_once() {
        assert_eq!(target(b"/css/app.css"), file("css/app.css"));
        assert_eq!(target(b"/a%20b%2ecss"), file("a b.css"));
        assert_eq!(target(b"/%252e%252e/passwd"), file("%2e%2e/passwd"));
        assert_eq!(target(b"/a..b/c.."), file("a..b/c.."));
        assert_eq!(target(b"/%ff"), Target::File(Cow::Borrowed(b"\xff")));
        assert_eq!(target(b"/"), Target::Directory(Cow::Borrowed(b"")));
        assert_eq!(target(b"/docs/"), Target::Directory(Cow::Borrowed(b"docs")));
        assert_eq!(
            target(b"/d%6fcs/"),
            Target::Directory(Cow::Borrowed(b"docs"))
        );
    }

    #[test]
    fn traversal_is_hostile_in_every_encoding() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/css/../../etc/passwd",
            "/css/..",
            "/%2e%2e/etc/passwd",
            "/%2E%2e/etc/passwd",
            "/.%2e/etc/passwd",
            "/css/%2e%2e%2f%2e%2e%2fetc/passwd",
            "/css/..%2f..%2fetc/passwd",
            "/..%5c..%5cetc/passwd",
            "/..\\..\\etc/passwd",
            "/./index.html",
            "/%2e/index.html",
            "/app.css%00.png",
            "/%00",
            "/%",
            "/%2",
            "/%zz",
            "/a%+2f",
            "/%u002e",
        ] {
            assert_eq!(target(path.as_bytes()), Target::Hostile, "{path}");
        }
    }

    #[test]
    fn unusual_paths_are_not_files() {
        let long = format!("/{}", "a/".repeat(2_048) + "b");
        for path in [
            "*",
            "",
            "css/app.css",
            "//etc/passwd",
            "/css//app.css",
            "/css/app.css//",
            "/css%2fapp.css",
            "/css%2Fapp.css",
            "/css/app.css%2f",
            "/a\\b",
            "/.env",
            "/%2eenv",
            "/.git/config",
            "/css/.htaccess",
            "/css/.well-known/a",
            "/.well-known/.htaccess",
            "/.well-known-not",
            "/...",
            long.as_str(),
        ] {
            assert_eq!(target(path.as_bytes()), Target::None, "{path}");
        }
        let path = "/.well-known/security.txt";
        assert_eq!(target(path.as_bytes()), file(&path[1..]));
    }

    #[test]
    fn the_source_of_scripts_is_recognised() {
        let extensions = ["php".to_owned(), "phtml".to_owned()];
        for name in [
            "index.php",
            "a/index.PHP",
            "index.php.bak",
            "index.php~",
            "index.php.gz",
            "a.b.phtml",
        ] {
            assert!(is_script(name.as_bytes(), &extensions), "{name}");
        }
        for name in ["php", "php.css", "a.php/app.css", "app.phpx", "app.css", ""] {
            assert!(!is_script(name.as_bytes(), &extensions), "{name}");
        }
    }

    /// Paths made of the parts that make paths dangerous.
    fn hostile_path() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("."),
            Just(".."),
            Just("/"),
            Just("//"),
            Just("%2e"),
            Just("%2E"),
            Just("%2f"),
            Just("%5c"),
            Just("\\"),
            Just("%00"),
            Just("%"),
            Just("%25"),
            Just("%252e"),
            Just("a"),
            Just(".well-known"),
            Just("%c0%ae"),
        ];
        let parts = proptest::collection::vec(part, 0..12);
        parts.prop_map(|parts| format!("/{}", parts.concat()))
    }

    proptest! {
        #[test]
        fn a_target_never_leaves_the_root(path in hostile_path()) {
            if let Target::File(path) | Target::Directory(path) = target(path.as_bytes()) {
                prop_assert!(!path.contains(&0) && !path.starts_with(b"/"));
                for (depth, part) in path.split(is_slash).enumerate() {
                    prop_assert!(part != b".." && part != b".");
                    prop_assert!(depth == 0 || !part.starts_with(b"."));
                }
            }
        }

        #[test]
        fn no_path_panics(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            target(&path);
        }
    }
}
