//! Mutation testing of the checkers: every statement of the corpus that orders something, broken in
//! one way.
//!
//! A mutant is found if the checkers tell of anything at any schedule, or the kernel stops with a
//! fault. One that nothing is found about is run again with the checkers off; where its result is
//! wrong, the checkers have missed a real fault. Where it is right at every schedule, what was
//! changed may not have mattered: docs/checking.md says of which classes that holds.
//!
//!     cargo test -p warpwright-cli --test it mutation:: -- --ignored --nocapture
//!
//! A few of them run with the other tests.

mod operators;
mod run;
mod text;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use operators::{CLASSES, Class, Mutant};
use run::{Outcome, Trial};
use text::Kernel;
use warpwright_testing::corpus::Case;

/// A text with the mutants of what a launch executes of it.
struct Subject<'a> {
    case: &'a Case,
    ptx: PathBuf,
    text: String,
    mutants: Vec<Mutant>,
}

impl<'a> Subject<'a> {
    fn of(case: &'a Case, ptx: PathBuf, trial: &Trial) -> Self {
        let text = fs::read_to_string(&ptx).expect("the text");
        let mut mutants =
            operators::mutants(&Kernel::of(&text, case.launch["entry"].as_str().expect("a name")));
        if !mutants.is_empty() {
            let executed: HashSet<usize> = trial.executed_lines(case, &ptx);
            mutants.retain(|mutant| executed.contains(&mutant.line));
        }
        Self { case, ptx, text, mutants }
    }

    fn name(&self) -> String {
        self.ptx.file_stem().expect("a name").to_string_lossy().into_owned()
    }
}

/// The texts of a case that differ: not those for debuggers, and nvcc's for the newest target
/// alone, since they are alike.
fn texts(case: &Case) -> Vec<PathBuf> {
    let mut texts = case.texts();
    let stem = |text: &Path| text.file_stem().expect("a name").to_string_lossy().into_owned();
    texts.retain(|text| !stem(text).contains('-'));
    if texts.iter().any(|text| stem(text).ends_with(".sm_90a")) {
        texts.retain(|text| !stem(text).ends_with(".sm_80"));
    }
    texts
}

/// What became of the mutants of a class.
#[derive(Default)]
struct Tally {
    count: usize,
    found: usize,
    at_every_schedule: usize,
    harmless: usize,
    missed: usize,
    endless: usize,
}

/// Does work for every index below `count`, on all of the host's cores.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize, &Trial) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let root = std::env::temp_dir().join(format!("warpwright-mutation-{}", std::process::id()));
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (next, results, work) = (&next, &results, &work);
            let trial = Trial::in_directory(root.join(worker.to_string()));
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let result = work(index, &trial);
                    results.lock().expect("no other worker panicked").push((index, result));
                }
            });
        }
    });
    fs::remove_dir_all(&root).expect("its own files");
    let mut results = results.into_inner().expect("no worker panicked");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs mutants of the cases; what became of each class, and the mutants that the checkers missed.
fn sweep(
    cases: &[&Case],
    chosen: impl Fn(usize, &Mutant) -> bool,
) -> (BTreeMap<&'static str, Tally>, Vec<String>) {
    let texts: Vec<(&Case, PathBuf)> =
        cases.iter().flat_map(|case| texts(case).into_iter().map(move |text| (*case, text))).collect();
    let subjects = in_parallel(texts.len(), |index, trial| {
        let (case, text) = &texts[index];
        Subject::of(case, text.clone(), trial)
    });
    let all = subjects.iter().flat_map(|subject| subject.mutants.iter().map(move |mutant| (subject, mutant)));
    let all = all.enumerate().filter(|(index, (_, mutant))| chosen(*index, mutant));
    let all: Vec<(&Subject<'_>, &Mutant)> = all.map(|(_, both)| both).collect();
    let outcomes = in_parallel(all.len(), |index, trial| {
        let (subject, mutant) = all[index];
        trial.outcome(subject.case, &mutant.apply(&subject.text))
    });
    let (mut tallies, mut missed) = (BTreeMap::<&str, Tally>::new(), Vec::new());
    for ((subject, mutant), outcome) in all.iter().zip(outcomes) {
        let tally = tallies.entry(mutant.class.name).or_default();
        tally.count += 1;
        let said = match &outcome {
            Outcome::Found { everywhere } => {
                tally.found += 1;
                tally.at_every_schedule += usize::from(*everywhere);
                continue;
            }
            Outcome::Harmless => {
                tally.harmless += 1;
                "harmless".to_owned()
            }
            Outcome::Endless => {
                tally.endless += 1;
                "runs on".to_owned()
            }
            Outcome::Wrong(difference) => {
                tally.missed += 1;
                format!("WRONG, {difference}")
            }
            Outcome::Refused(why) => {
                tally.count -= 1;
                format!("refused, {why}")
            }
        };
        let line = format!(
            "{} {}:{}: {}: `{}` -> `{}`: {said}",
            subject.case.name,
            subject.name(),
            mutant.line,
            mutant.class.name,
            mutant.before,
            mutant.after
        );
        println!("{line}");
        if mutant.class.must_be_found && matches!(outcome, Outcome::Wrong(_)) {
            missed.push(line);
        }
    }
    (tallies, missed)
}

fn print(tallies: &BTreeMap<&'static str, Tally>) {
    println!(
        "| change | mutants | found | at every schedule | result right | runs on | wrong and not found |"
    );
    println!("|---|---|---|---|---|---|---|");
    for Class { name, .. } in CLASSES {
        if let Some(tally) = tallies.get(name) {
            let Tally { count, found, at_every_schedule, harmless, missed, endless } = tally;
            println!(
                "| {name} | {count} | {found} | {at_every_schedule} | {harmless} | {endless} | {missed} |"
            );
        }
    }
}

/// Cases of every kind of order that take little time.
const QUICK: [&str; 8] = [
    "acquire_release",
    "bulk_double",
    "copy_async_mbarrier",
    "gemm_simple",
    "matmul_async",
    "multicast_add",
    "sum_last_block",
    "tile_negate",
];

/// Of how many mutants of the quick cases one is run.
const QUICK_EVERY: usize = 5;

#[test]
fn no_mutant_of_a_few_is_missed() {
    let cases = Case::all();
    let quick: Vec<&Case> = cases.iter().filter(|case| QUICK.contains(&case.name.as_str())).collect();
    let (tallies, missed) =
        sweep(&quick, |index, mutant| index % QUICK_EVERY == 0 && mutant.class.must_be_found);
    print(&tallies);
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
    let sum = |of: fn(&Tally) -> usize| tallies.values().map(of).sum::<usize>();
    let (count, found, endless) =
        (sum(|tally| tally.count), sum(|tally| tally.found), sum(|tally| tally.endless));
    assert_eq!(endless, 0, "a kernel that waits in vain is stopped");
    assert!(10 * found >= 8 * count, "only {found} of {count} mutants are found");
}

#[test]
#[ignore = "runs every mutant of the corpus"]
fn no_mutant_with_a_wrong_result_is_missed() {
    let cases = Case::all();
    let (tallies, missed) = sweep(&cases.iter().collect::<Vec<_>>(), |_, _| true);
    print(&tallies);
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}
