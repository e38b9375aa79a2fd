//! The admin API as OpenAPI 3.1, generated from the types.

use crate::{Answer, AnswerField, Field, Fields, OPERATIONS, Operation, Role};
use serde_json::{Map, Value, json};

/// The schema of an object with these fields.
#[must_use]
pub fn object<T: Fields>() -> Value {
    of_fields(&T::fields())
}

fn of_fields(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), field_schema(field)))
        .collect();
    let required = fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let mut schema =
        json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn field_schema(field: &Field) -> Value {
    let mut schema = field.schema.clone();
    schema["description"] = field.doc.trim().into();
    schema
}

/// The paths of all operations; `errors` are the responses that all of them have.
#[must_use]
pub fn paths(errors: &Value) -> Map<String, Value> {
    let all = OPERATIONS.iter().map(|operation| {
        let object = operation.method.trim_start_matches("stoker.");
        let path = format!("/admin/{object}/{}", operation.op);
        let mut item = json!({"post": post_operation(operation, object, errors)});
        if operation.only_reads {
            item["get"] = get_operation(operation, object, errors);
        }
        (path, item)
    });
    all.collect()
}

fn post_operation(operation: &Operation, object: &str, errors: &Value) -> Value {
    let fields = (operation.fields)();
    let is_required = fields.iter().any(|field| field.required);
    let mut described = common(operation, &format!("{object}_{}", operation.op), errors);
    described["requestBody"] = json!({
        "required": is_required,
        "content": {"application/json": {"schema": of_fields(&fields)}},
    });
    described
}

fn get_operation(operation: &Operation, object: &str, errors: &Value) -> Value {
    let parameters = (operation.fields)().into_iter().map(|field| {
        json!({
            "name": field.name,
            "in": "query",
            "required": field.required,
            "description": field.doc.trim(),
            // The items of a list are separated by commas.
            "style": "form",
            "explode": false,
            "schema": field.schema,
        })
    });
    let parameters: Vec<Value> = parameters.collect();
    let mut described = common(operation, &format!("{object}_{}_get", operation.op), errors);
    described["parameters"] = parameters.into();
    described
}

fn common(operation: &Operation, id: &str, errors: &Value) -> Value {
    let role = match operation.role {
        Role::Anyone => "",
        Role::Administrator => " Requires root or the user that Stoker runs as.",
    };
    let answer = format!("#/components/schemas/{}", operation.answer);
    let mut responses = errors.clone();
    responses["200"] = json!({
        "description": operation.answer_doc.trim(),
        "content": {"application/json": {"schema": {"$ref": answer}}},
    });
    json!({
        "operationId": id,
        "tags": ["admin"],
        "description": format!("{}{role}", operation.doc.trim()),
        "responses": responses,
    })
}

/// The schemas of the answers and of the objects in them.
#[must_use]
pub fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    for operation in OPERATIONS {
        let schema = of_answer(operation.answer_doc, operation.answer_fields);
        all.insert(operation.answer.to_owned(), schema);
    }
    macro_rules! parts {
        ($($answer:ty,)*) => {$(
            let schema = of_answer(<$answer>::DOC, <$answer>::FIELDS);
            all.insert(<$answer>::NAME.to_owned(), schema);
        )*};
    }
    crate::answer_objects!(parts);
    let known: Vec<String> = all.keys().cloned().collect();
    for schema in all.values_mut() {
        drop_unknown(schema, &known);
    }
    all
}

/// Allows additional fields: later versions may add some, and some answers also have the fields of another type.
fn of_answer(doc: &str, fields: &[AnswerField]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = of_kind(field.kind);
            schema["description"] = field.doc.trim().into();
            (field.name.to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "description": doc.trim(), "properties": properties})
}

/// The schema of a Rust type.
fn of_kind(rust: &str) -> Value {
    let rust: String = rust.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = |prefix: &str| rust.strip_prefix(prefix)?.strip_suffix('>');
    if let Some(inner) = inner("Option<") {
        return json!({"anyOf": [of_kind(inner), {"type": "null"}]});
    }
    if let Some(inner) = inner("Vec<") {
        return json!({"type": "array", "items": of_kind(inner)});
    }
    match rust.rsplit("::").next().unwrap_or_default() {
        "String" | "State" | "Kind" | "Health" => json!({"type": "string"}),
        "Uuid" => json!({"type": "string", "format": "uuid"}),
        "bool" => json!({"type": "boolean"}),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => json!({"type": "integer"}),
        "f64" => json!({"type": "number"}),
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

/// Removes references to unknown schemas, so that any value is valid there.
fn drop_unknown(schema: &mut Value, known: &[String]) {
    match schema {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str);
            let name = target.and_then(|target| target.rsplit('/').next());
            if name.is_some_and(|name| known.iter().all(|known| known != name)) {
                map.remove("$ref");
            }
            map.values_mut()
                .for_each(|value| drop_unknown(value, known));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| drop_unknown(value, known)),
        _ => {}
    }
}
