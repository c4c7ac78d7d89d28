//! Kernels broken on purpose, which the checkers must find.

/// The PTX with a change in the `which`-th line that holds a text. If the change begins with `setp`,
/// the line sets its predicate to true: a wait that succeeds at once.
pub(crate) fn mutated(ptx: &str, text: &str, which: usize, change: &str) -> String {
    let mut lines: Vec<String> = ptx.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().filter(|line| line.contains(text)).nth(which).expect("the line is there");
    *line = line.replace(text, change);
    if change.starts_with("setp") {
        let predicate = line.trim().split([' ', ',']).nth(1).expect("a predicate");
        *line = format!("setp.eq.u32 {predicate}, 0, 0;");
    }
    lines.join("\n")
}
