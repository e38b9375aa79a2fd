//! Reads a body as every operation would, for tests and fuzzing.

use crate::{Body, Map, Request};

/// Reads a body as the request of each operation with its `op`, and returns how many operations accept it.
///
/// Each accepted request makes a round trip through its JSON, which must result in the same request. For tests and fuzzing.
///
/// # Panics
/// An accepted request has changed after a round trip through its JSON.
#[must_use]
pub fn accepted_by(body: &[u8]) -> usize {
    let body = Body::new(body);
    let Ok(op) = body.op() else {
        return 0;
    };
    let Ok(fields) = body.fields() else {
        return 0;
    };
    let mut accepted = 0;
    macro_rules! try_each {
        ($($request:ty,)*) => {$(
            if op.as_deref() == Some(<$request as Request>::OP) {
                accepted += usize::from(is_accepted::<$request>(fields.clone()));
            }
        )*};
    }
    crate::every_request!(try_each);
    accepted
}

fn is_accepted<R: Request + PartialEq + std::fmt::Debug>(fields: Map) -> bool {
    let request = match crate::parse::<R>(fields) {
        Ok(request) => request,
        Err(invalid) => {
            assert!(!invalid.to_string().is_empty());
            return false;
        }
    };
    let json = request.json().to_string();
    let again = Body::new(json.as_bytes());
    assert_eq!(again.op().ok().flatten().as_deref(), Some(R::OP));
    let again = again.fields().map(crate::parse::<R>);
    assert_eq!(again.as_ref().map(Result::is_ok), Ok(true), "{json}");
    assert_eq!(again.and_then(|again| again), Ok(request));
    true
}
