//! "Did you mean …?": the known word nearest to a misspelt one.

/// The least similarity, 0 to 1, at which a word is still worth suggesting.
const THRESHOLD: f64 = 0.6;

/// The candidate that differs from `word` in case only, or else the most similar one by normalised Damerau–Levenshtein
/// distance; of several equal ones that which begins alike, else the first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let mut best: Option<(f64, usize, &'a str)> = None;
    for candidate in candidates {
        if candidate.to_lowercase() == lower {
            return Some(candidate);
        }
        let score = strsim::normalized_damerau_levenshtein(&lower, candidate);
        let alike = lower.bytes().zip(candidate.bytes()).take_while(|(a, b)| a == b).count();
        if score >= THRESHOLD && best.is_none_or(|(most, longest, _)| (score, alike) > (most, longest)) {
            best = Some((score, alike, candidate));
        }
    }
    best.map(|(.., candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn prefers_case_then_similarity() {
        let known = ["kv_head", "kv_heads", "heads", "Hidden"];
        assert_eq!(nearest("kv_haeds", known), Some("kv_heads"));
        assert_eq!(nearest("hidden", known), Some("Hidden"));
        assert_eq!(nearest("KV_HEAD", known), Some("kv_head"));
        assert_eq!(nearest("optimizer", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest("epp", ["pp", "ep"]), Some("ep"));
    }
}
