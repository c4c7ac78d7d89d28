//! Product code, its messages and help, and the documentation use the glossary's words.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that another one replaces.
struct Refused {
    /// The words, in lower case.
    words: &'static [&'static str],
    /// The glossary's term, and what else fits.
    instead: &'static str,
    /// Paths that keep the words, and the reason.
    except: &'static [(&'static str, &'static str)],
}

const IN_WORK: &str = "being rewritten: the exception goes with the old text";

const REFUSED: &[Refused] = &[
    Refused {
        words: &["ring", "rings"],
        instead: "pipeline",
        except: &[
            ("crates/lang/src", IN_WORK),
            ("crates/emulator/src", IN_WORK),
            ("crates/cli/src/roofline/chart.rs", "a circle of a chart"),
            ("crates/layout/src/picture/svg.rs", "a circle of a picture"),
        ],
    },
    Refused {
        words: &["team", "teams"],
        instead: "warpgroup, or cluster",
        except: &[("crates/kernels/src/attention", IN_WORK), ("docs/kernels/decode-attention.md", IN_WORK)],
    },
    Refused {
        words: &["in front"],
        instead: "predecessor, or before",
        except: &[
            ("crates/kernels/src/attention", IN_WORK),
            ("crates/kernels/src/gemm", IN_WORK),
            ("crates/workloads/src/attention", IN_WORK),
            ("crates/workloads/src/gemm", IN_WORK),
            ("crates/runtime/src", IN_WORK),
        ],
    },
    Refused { words: &["under way"], instead: "in flight", except: &[] },
    Refused { words: &["give back", "gives back", "given back"], instead: "free", except: &[] },
    Refused { words: &["heard of", "learnt"], instead: "happens-before", except: &[] },
    Refused { words: &["turnover"], instead: "tile scheduler", except: &[] },
    Refused { words: &["raster walk"], instead: "rasterization", except: &[] },
    Refused { words: &["residence"], instead: "occupancy", except: &[] },
    Refused { words: &["overlapping launch"], instead: "programmatic dependent launch", except: &[] },
    Refused { words: &["lanes meet"], instead: "bank conflict", except: &[] },
    Refused { words: &["library kernel"], instead: "workload", except: &[] },
    Refused { words: &["told of"], instead: "report", except: &[] },
    Refused { words: &["trouble"], instead: "fault", except: &[] },
    Refused { words: &["element kind"], instead: "data type", except: &[] },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Sources and documents of a folder, without tests, corpora, records of measurements and built files.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    const LEFT_OUT: [&str; 8] =
        ["target", "tests", "results", "benches", "corpus", "glossary.md", "CHANGELOG.md", ".git"];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match path.is_dir() {
            _ if LEFT_OUT.contains(&name) => {}
            true => files(&path, found),
            false if [Some("rs"), Some("md")].contains(&extension) => found.push(path),
            false => {}
        }
    }
}

/// Whether a text in lower case has words, alone or in an identifier.
fn has(text: &str, words: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    text.match_indices(words).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + words.len()..].chars().next())
    })
}

#[test]
fn code_and_documentation_use_the_words_of_the_glossary() {
    let root = root();
    let mut all = vec![];
    files(&root, &mut all);
    let (mut wrong, mut used) = (vec![], BTreeSet::new());
    for path in &all {
        let name = path.strip_prefix(&root).expect("a path of the repository");
        let text = fs::read_to_string(path).expect("a text").to_lowercase();
        let is_there = |refused: &&Refused| refused.words.iter().any(|words| text.contains(words));
        for Refused { words, instead, except } in REFUSED.iter().filter(is_there) {
            for (number, line) in (1..).zip(text.lines()) {
                let Some(word) = words.iter().find(|words| has(line, words)) else { continue };
                match except.iter().find(|(path, _)| name.starts_with(path)) {
                    Some((path, _)) => drop(used.insert((words[0], *path))),
                    None => wrong.push(format!("{}:{number}: {word:?}: say {instead}", name.display())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "words that docs/glossary.md refuses:\n{}", wrong.join("\n"));
    for Refused { words, except, .. } in REFUSED {
        for (path, _) in except.iter().filter(|(_, reason)| *reason != IN_WORK) {
            assert!(used.contains(&(words[0], *path)), "{path} has no {words:?}: leave the exception out");
        }
    }
}

/// Each refused word is in the glossary's last column, in the row of its term.
#[test]
fn the_glossary_has_the_words_that_are_refused() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    for Refused { words, instead, .. } in REFUSED {
        let term = instead.split(',').next().unwrap_or_default();
        let is_row = |line: &str| {
            let cells: Vec<&str> = line.split('|').collect();
            let [_, terms, _, refused, _] = cells[..] else { return false };
            terms.contains(term) && words.iter().any(|words| refused.contains(words))
        };
        assert!(glossary.lines().any(is_row), "no row of {term:?} refuses {words:?}");
    }
}
