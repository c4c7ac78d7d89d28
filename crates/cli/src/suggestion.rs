//! Suggestions for mistyped words.

/// The words of `known` that a mistyped word may stand for, at most one: the nearest one, if a
/// quarter of its letters at most differ.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // No word that is much longer than all others is a misspelling of one.
    let letters = word.chars().count();
    let allowed = |known: &str| 1 + known.chars().count().max(letters) / 4;
    let measured = known.into_iter().filter_map(|known| {
        let is_close = known.chars().count().abs_diff(letters) <= allowed(known);
        let distance = is_close.then(|| strsim::osa_distance(word, known))?;
        (distance > 0 && distance <= allowed(known)).then_some((distance, known))
    });
    measured.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// `; did you mean `word`?` if a known word is near, and nothing otherwise.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or(String::new(), |known| format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let verbs = ["run", "report", "roofline", "check", "exec", "layout"];
        for (word, nearest_verb) in [
            ("rnu", Some("run")),
            ("runn", Some("run")),
            ("chekc", Some("check")),
            ("exce", Some("exec")),
            ("layuot", Some("layout")),
            ("reprot", Some("report")),
            ("run", None),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, verbs), nearest_verb, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(5_000_000), verbs), None);
        assert_eq!(did_you_mean("gird", ["grid", "block"]), "; did you mean `grid`?");
        assert_eq!(did_you_mean("colour", ["grid", "block"]), "");
    }
}
