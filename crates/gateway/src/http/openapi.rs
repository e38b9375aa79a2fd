//! `/openapi.json`: the whole API as OpenAPI 3.1.

use super::push_options::{Kind, OPTIONS};
use super::request_meta::{HEADER_PREFIX, MAX_KEY, title};
use serde_json::{Map, Value, json};

/// The OpenAPI description of everything that the gateway serves.
#[must_use]
pub fn openapi() -> Value {
    let errors = json!({
        "431": {"description": "The header is larger than [http] max_header. This response has no body."},
        "default": {"$ref": "#/components/responses/Problem"},
    });
    let mut paths = stoker_api::openapi::paths(&errors);
    paths.insert("/call/{method}".to_owned(), call(&errors));
    paths.insert("/queues/{queue}".to_owned(), push(&errors));
    paths.insert("/queues/{queue}/batch".to_owned(), batch(&errors));
    for (path, kind, doc) in [
        (
            "/health",
            "text/plain",
            "Whether the gateway process is alive. Needs no token.",
        ),
        (
            "/ready",
            "text/plain",
            "Whether requests can be served: the server answers, and each pool has a worker. Needs no token.",
        ),
        (
            "/metrics",
            "text/plain",
            "Metrics in the text format of Prometheus.",
        ),
        (
            "/openapi.json",
            "application/json",
            "This OpenAPI description.",
        ),
    ] {
        paths.insert(path.to_owned(), get(path, kind, doc, &errors));
    }
    let mut schemas = stoker_api::openapi::schemas();
    schemas.insert("Problem".to_owned(), problem_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stoker",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT", "identifier": "MIT"},
            "description": "Calls, jobs and administration over HTTP.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The content of [http] token_file. Required on TCP only; on the unix socket the kernel \
                 identifies the user.",
            }},
            "responses": {"Problem": {
                "description": "Why the request failed.",
                "headers": {"Retry-After": {
                    "description": "Seconds after which the request may be sent again",
                    "schema": {"type": "integer"},
                }},
                "content": {"application/problem+json": {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                }},
            }},
            "schemas": schemas,
        },
    })
}

fn get(path: &str, kind: &str, doc: &str, errors: &Value) -> Value {
    let is_open = matches!(path, "/health" | "/ready");
    let mut described = json!({
        "operationId": path.trim_start_matches('/').replace('.', "_"),
        "description": doc,
        "responses": add_common_responses(errors, &json!({
            "200": {"description": doc, "content": {kind: {}}},
        })),
    });
    if is_open {
        described["security"] = json!([{}]);
    }
    json!({"get": described})
}

fn call(errors: &Value) -> Value {
    let mut parameters = vec![
        path_parameter("method", "A method: SERVICE.METHOD"),
        header(
            "timeout",
            "Deadline, such as 500ms or 2s; the default is the service's",
            &json!({"type": "string"}),
        ),
        header(
            "idempotent",
            "Whether the call may be retried if its worker or the server dies",
            &json!({"type": "boolean"}),
        ),
    ];
    parameters.extend(common_headers());
    parameters.push(header("key", "Fairness key: the tenant", &text(MAX_KEY)));
    json!({"post": {
        "operationId": "call",
        "description": "Calls a method and returns its worker's answer. The content type states the codec of the body: \
         JSON, protobuf, msgpack, or raw for all others.",
        "parameters": parameters,
        "requestBody": {"content": {"application/json": {}, "application/octet-stream": {}}},
        "responses": add_common_responses(errors, &json!({
            "200": {"description": "The worker's answer.", "content": {"application/json": {}, "application/octet-stream": {}}},
        })),
    }})
}

fn push(errors: &Value) -> Value {
    let mut parameters = vec![path_parameter("queue", "A queue")];
    parameters.extend(common_headers());
    for option in OPTIONS {
        let schema = match option.kind {
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Number(_) | Kind::Timestamp => json!({"type": "integer", "minimum": 0}),
            Kind::Text(max) => text(max),
            Kind::Millis(_) | Kind::Delays => json!({"type": "string"}),
        };
        let doc = format!("{}: {}", option.doc, option.kind.expected());
        parameters.push(header(option.header, &doc, &schema));
    }
    json!({"post": {
        "operationId": "push",
        "description": "Pushes a job, whose payload is the body. Returns after the job has been written to the store.",
        "parameters": parameters,
        "requestBody": {"content": {"application/json": {}, "application/octet-stream": {}}},
        "responses": add_common_responses(errors, &json!({
            "201": {"description": "The job's id.", "content": {"application/json": {"schema": id_schema()}}},
        })),
    }})
}

fn batch(errors: &Value) -> Value {
    let mut fields = Map::new();
    fields.insert(
        "payload".to_owned(),
        json!({"description": "The job's payload, any JSON"}),
    );
    fields.insert(
        "priority".to_owned(),
        json!({"type": "integer", "minimum": 0, "maximum": 7}),
    );
    fields.insert("idempotency_key".to_owned(), text(MAX_KEY));
    for option in OPTIONS {
        let mut schema = match option.kind {
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Millis(_) | Kind::Number(_) | Kind::Timestamp => {
                json!({"type": "integer", "minimum": 0})
            }
            Kind::Text(max) => text(max),
            Kind::Delays => {
                json!({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}})
            }
        };
        schema["description"] = option.doc.into();
        fields.insert(option.json.to_owned(), schema);
    }
    let job = json!({"type": "object", "additionalProperties": false, "required": ["payload"], "properties": fields});
    let jobs =
        json!({"type": "array", "minItems": 1, "maxItems": super::push::MAX_JOBS, "items": job});
    let body = json!({"type": "object", "additionalProperties": false, "required": ["jobs"], "properties": {"jobs": jobs}});
    let answered = json!({"type": "object", "properties": {"jobs": {"type": "array", "items": {
        "anyOf": [id_schema(), {"$ref": "#/components/schemas/Problem"}],
    }}}});
    let answered = json!({"application/json": {"schema": answered}});
    json!({"post": {
        "operationId": "push_batch",
        "description": "Pushes many jobs. The answer has an id or a problem for each job, in the same order.",
        "parameters": [path_parameter("queue", "A queue")],
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
        "responses": add_common_responses(errors, &json!({
            "201": {"description": "All jobs were pushed.", "content": answered},
            "207": {"description": "Some jobs were not pushed.", "content": answered},
        })),
    }})
}

/// The responses of an operation: its own, and the ones that all operations have.
fn add_common_responses(errors: &Value, own: &Value) -> Value {
    let all = [own, errors].into_iter().filter_map(Value::as_object);
    let all = all
        .flatten()
        .map(|(status, response)| (status.clone(), response.clone()));
    Value::Object(all.collect())
}

fn id_schema() -> Value {
    json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "format": "uuid"}}})
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["status", "title", "code", "detail"],
        "properties": {
            "status": {"type": "integer", "description": "The HTTP status"},
            "title": {"type": "string"},
            "code": {"type": "string", "description": "The status, such as RESOURCE_EXHAUSTED"},
            "detail": {"type": "string"},
            "class": {"type": "string", "description": "Class of the application's error"},
            "place": {"type": "string", "description": "Where it was thrown: file:line"},
            "retry_after_ms": {"type": "integer"},
            "processed": {"const": false, "description": "No worker has started the call"},
            "item": {"type": "integer", "description": "The item of the request that the error is about, from 1"},
            "job": {"type": "string", "description": "The job that holds the key"},
        },
    })
}

fn text(max: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": max})
}

fn path_parameter(name: &str, doc: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": doc, "schema": {"type": "string"}})
}

fn header(name: &str, doc: &str, schema: &Value) -> Value {
    let name = title(&format!("{HEADER_PREFIX}{name}"));
    json!({"name": name, "in": "header", "description": doc, "schema": schema})
}

/// The headers that calls and pushes have in common.
fn common_headers() -> Vec<Value> {
    let plain = |name: &str, doc: &str, schema: Value| json!({"name": name, "in": "header", "description": doc, "schema": schema});
    vec![
        header(
            "priority",
            "0 (first) to 7 (last), 3 by default",
            &json!({"type": "integer", "minimum": 0, "maximum": 7}),
        ),
        plain(
            "Idempotency-Key",
            "Repeats of a request with the same key count as one request, so it is safe to send it again",
            text(MAX_KEY),
        ),
        plain(
            "traceparent",
            "W3C trace context, passed on to the worker",
            json!({"type": "string"}),
        ),
        plain(
            "tracestate",
            "W3C trace context, passed on to the worker",
            json!({"type": "string"}),
        ),
        plain(
            "baggage",
            "W3C baggage, passed on to the worker",
            json!({"type": "string"}),
        ),
    ]
}
