//! "Did you mean": finds the valid name that is most similar to an unknown one.

/// The maximum number of names that are compared with an unknown one. Of thousands of queues the first are enough.
const MAX_COMPARED: usize = 1_000;
/// The maximum number of names that are listed if none is similar.
const MAX_LISTED: usize = 20;

/// The valid name that was most likely meant, if one is similar enough.
pub fn nearest<'n>(name: &str, valid: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let alike = valid
        .into_iter()
        .take(MAX_COMPARED)
        .filter(|valid| valid.len().abs_diff(name.len()) <= 2.max(name.len() / 3));
    let scored = alike.map(|valid| (strsim::damerau_levenshtein(name, valid), valid));
    let (distance, best) = scored.min()?;
    (distance <= 2.max(name.len() / 3)).then_some(best)
}

/// Returns "did you mean …?", or the list of valid names if none is similar.
pub fn suggest<'n>(name: &str, valid: impl IntoIterator<Item = &'n str> + Clone) -> String {
    if let Some(best) = nearest(name, valid.clone()) {
        return format!("did you mean '{best}'?");
    }
    let mut all = valid.into_iter();
    let listed: Vec<&str> = all.by_ref().take(MAX_LISTED).collect();
    match (listed.is_empty(), all.count()) {
        (true, _) => "there are none".to_owned(),
        (false, 0) => format!("expected one of: {}", listed.join(", ")),
        (false, more) => format!("expected one of: {} and {more} more", listed.join(", ")),
    }
}
