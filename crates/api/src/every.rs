//! Reads a body as every operation would, for tests and fuzzing.

use crate::{Body, Map, Request};

/// Reads a body as each operation would, as far as anybody may ask for it. Returns how many accept it.
///
/// What is accepted is written and read again: it must be the same request. For tests and fuzzing.
///
/// # Panics
/// A request that was accepted is not read as the same one again.
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
