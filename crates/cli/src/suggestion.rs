//! Suggestions for mistyped words.

/// The words of `known` that a mistyped word may stand for, at most one: the nearest one, if a
/// quarter of its letters at most differ.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // No word that is much longer than all others is a misspelling of one.
    let letters = word.chars().count();
    let allowed = |known: &str| 1 + known.chars().count().max(letters) / 4;
    let measured = known.into_iter().filter_map(|known| {
        let is_close = known.chars().count().abs_diff(letters) <= allowed(known);
        let distance = is_close.then(|| distance(word, known))?;
        (distance > 0 && distance <= allowed(known)).then_some((distance, known))
    });
    measured.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// `; did you mean `word`?` if a known word is near, and nothing otherwise.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or(String::new(), |known| format!("; did you mean `{known}`?"))
}

/// The number of letters to insert, delete, replace or exchange with a neighbor (optimal string
/// alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
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
