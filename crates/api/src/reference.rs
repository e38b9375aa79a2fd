//! The reference page of the server's own methods, generated from the types.

use crate::{Answer, Field, Fields, Request, Role};
use std::fmt::Write;

const HEADING: &str = "# Administration methods\n\n\
Generated from the types that the server and the command line use. Each method takes a REQ whose body is a JSON object \
and answers with a JSON object; see [the protocol](protocol.md#9-the-servers-own-methods) for an example of every \
answer, and for `stoker.push`, which takes a job instead.\n\n\
A request with a field that is unknown, missing, `null`, repeated or of a wrong type is rejected \
(INVALID_ARGUMENT). Its body has at most 256 KB, unless it carries payloads (`import`, `edit`). A user without \
permission gets PERMISSION_DENIED before the body is read. Answers may get more fields: ignore those that you do not \
know. *Administrators* are root and the user that the server runs as; *anyone* is every user who may open the socket. \
Times are RFC 3339 in UTC; `…_ms` are milliseconds.\n";

/// The page as Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = HEADING.to_owned();
    let mut method = "";
    macro_rules! operations {
        ($($request:ty,)*) => {$(operation::<$request>(&mut page, &mut method);)*};
    }
    crate::every_request!(operations);
    page += "\n## Objects in requests\n";
    object::<crate::job::ExportedJob>(&mut page, "An exported job");
    object::<crate::job::Options>(&mut page, "Options of a job");
    object::<crate::job::Unique>(&mut page, "A unique key");
    object::<crate::job::JobError>(&mut page, "An error of a job");
    page += "\n## Objects in answers\n";
    macro_rules! answers {
        ($($answer:ty,)*) => {$(answer::<$answer>(&mut page);)*};
    }
    crate::answer_objects!(answers);
    page
}

fn operation<R: Request>(page: &mut String, method: &mut &'static str) {
    if *method != R::METHOD {
        *method = R::METHOD;
        put(page, format_args!("\n## `{}`\n", R::METHOD));
    }
    let role = match R::ROLE {
        Role::Anyone => "anyone",
        Role::Administrator => "administrators",
    };
    put(
        page,
        format_args!("\n### `{}` ({role})\n\n{}\n", R::OP, R::DOC.trim()),
    );
    let fields = R::fields();
    if !fields.is_empty() {
        request_fields(page, &fields);
    }
    let doc = R::Answer::DOC.trim();
    put(
        page,
        format_args!("\nReturns `{}`: {doc}\n", R::Answer::NAME),
    );
    answer_fields::<R::Answer>(page);
}

fn object<T: Fields>(page: &mut String, title: &str) {
    put(page, format_args!("\n### {title}\n"));
    request_fields(page, &T::fields());
}

fn answer<A: Answer>(page: &mut String) {
    put(
        page,
        format_args!("\n### {}\n\n{}\n", A::NAME, A::DOC.trim()),
    );
    answer_fields::<A>(page);
}

fn request_fields(page: &mut String, fields: &[Field]) {
    *page += "\n| field | value | meaning |\n|---|---|---|\n";
    for field in fields {
        let required = if field.required { "**required**: " } else { "" };
        let expected = field.expected.replace('|', "\\|");
        let (name, doc) = (field.name, field.doc.trim());
        put(
            page,
            format_args!("| `{name}` | {required}{expected} | {doc} |\n"),
        );
    }
}

fn answer_fields<A: Answer>(page: &mut String) {
    if A::FIELDS.is_empty() {
        return;
    }
    *page += "\n| field | value | meaning |\n|---|---|---|\n";
    for field in A::FIELDS {
        let (name, doc, kind) = (field.name, field.doc.trim(), kind(field.kind));
        put(page, format_args!("| `{name}` | {kind} | {doc} |\n"));
    }
}

/// Describes a Rust type in terms of JSON.
fn kind(rust: &str) -> String {
    let rust: String = rust.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = |prefix: &str| rust.strip_prefix(prefix)?.strip_suffix('>');
    if let Some(inner) = inner("Option<") {
        return format!("{} or null", kind(inner));
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list of {}", kind(inner));
    }
    match rust.as_str() {
        "String" | "Uuid" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "f64" => "number".to_owned(),
        "State" | "Kind" | "Health" => "text".to_owned(),
        "Value" => "object".to_owned(),
        name => name.to_owned(),
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    page.write_fmt(text).ok();
}
