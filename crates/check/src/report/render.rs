//! Renders findings in the style of a compiler: source lines, underlined, with notes and help.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use warpwright_events::{Inlining, Label, Source};

use crate::report::finding::Finding;
use crate::report::order::Rank;

/// The author's source files, read on demand. Paths are as given to the compiler, and are resolved
/// in a root and in the folders above it.
#[derive(Debug)]
pub struct SourceFiles {
    root: PathBuf,
    texts: HashMap<String, Option<Cow<'static, str>>>,
}

impl SourceFiles {
    /// Files whose paths are relative to a folder or to one above it.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), texts: HashMap::new() }
    }

    /// Files whose paths are relative to the current folder or to one above it.
    pub fn here() -> Self {
        Self::under(std::env::current_dir().unwrap_or_default())
    }

    /// The text of a file; `None` if it is not found.
    pub fn file(&mut self, file: &str) -> Option<&str> {
        self.load(file);
        self.text(file)
    }

    /// A line of a file, from 1.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        self.file(file)?.lines().nth((line as usize).checked_sub(1)?)
    }

    /// The same, with a text in place of the file at that path.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, text: impl Into<Cow<'static, str>>) -> Self {
        self.texts.insert(path.into(), Some(text.into()));
        self
    }

    fn load(&mut self, file: &str) {
        let root = &self.root;
        self.texts.entry(file.to_owned()).or_insert_with(|| {
            let mut locations = root.ancestors().map(|folder| folder.join(Path::new(file)));
            locations.find_map(|path| std::fs::read_to_string(path).ok()).map(Cow::Owned)
        });
    }

    fn text(&self, file: &str) -> Option<&str> {
        self.texts.get(file)?.as_deref()
    }
}

/// The range to underline: the expression at a position, as far as it is on its line.
fn span(text: &str, source: &Source) -> Option<Range<usize>> {
    let line = (source.line as usize).checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let text = text.split_inclusive('\n').nth(line)?.trim_end();
    let indent = text.len() - text.trim_start().len();
    let column = (source.column as usize).saturating_sub(1).max(indent);
    let from = if text.is_char_boundary(column) && column < text.len() { column } else { indent };
    let (from, to) = (receiver(text, from).max(indent), expression(text, from));
    let whole = text.split(" // ").next().unwrap_or(text).trim_end_matches([';', '{', ',', ' ']).len();
    let to = if to > from { to } else { whole };
    Some(start + from..start + to.max(from + 1).min(text.len()))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The start of the expression whose method or index is at a position.
fn receiver(text: &str, position: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = position;
    if bytes.get(at) != Some(&b'[') && (at == 0 || bytes[at - 1] != b'.') {
        return at;
    }
    let mut depth = 0;
    while let Some(&byte) = at.checked_sub(1).and_then(|before| bytes.get(before)) {
        match byte {
            b')' | b']' => depth += 1,
            b'(' | b'[' if depth == 0 => break,
            b'(' | b'[' => depth -= 1,
            _ if depth > 0 || is_of_name(byte) || byte == b'.' || byte == b':' => {}
            _ => break,
        }
        at -= 1;
    }
    at
}

/// The end of the expression at a position: a path, and the calls and indices that follow it.
fn expression(text: &str, position: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = position;
    let (mut depth, mut generics) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'<' if depth == 0 && (generics > 0 || bytes[..at].ends_with(b"::")) => generics += 1,
            b'>' if generics > 0 => generics -= 1,
            _ if generics > 0 => {}
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => break,
            b')' | b']' => {
                depth -= 1;
                // A method of the result is another expression.
                if depth == 0 && !matches!(bytes.get(at + 1), Some(b'[' | b'(')) {
                    return at + 1;
                }
            }
            _ if depth > 0 || is_of_name(byte) || byte == b':' => {}
            _ => break,
        }
        at += 1;
    }
    if depth > 0 { text.len() } else { at }
}

/// The maximum number of findings listed under their cause.
const MOST_LISTED: usize = 8;

/// Findings that [`ordered`](crate::ordered) has placed, as text: one for each cause, by its index, with a
/// list of those that may follow from it.
pub fn render_causes(findings: &[Finding], files: &mut SourceFiles, styled: bool) -> Vec<(usize, String)> {
    let causes = findings.iter().enumerate().filter(|(_, finding)| finding.cause.is_none());
    let texts = causes.map(|(index, cause)| {
        let follows: Vec<&Finding> = findings.iter().filter(|finding| finding.cause == Some(index)).collect();
        let text = rendered(cause, listed(&follows), files, styled);
        let stops = index > 0 && cause.rank == Rank::Stop;
        (index, if stops { format!("The kernel then stopped:\n\n{text}") } else { text })
    });
    texts.collect()
}

/// The findings that may follow from another, as a note.
fn listed(follows: &[&Finding]) -> Option<String> {
    if follows.is_empty() {
        return None;
    }
    let place = |finding: &Finding| match finding.labels.first() {
        Some(Label { source: Some(source), .. }) => format!(" at {}:{}", source.file, source.line),
        Some(label) if !is_of_host(label) => format!(" at PTX line {}", label.ptx_line),
        _ => String::new(),
    };
    let line = |finding: &Finding| {
        let stops = if finding.rank == Rank::Stop { "the kernel stops: " } else { "" };
        format!("\n{stops}[{}]{}: {}", finding.kind.code(), place(finding), finding.message)
    };
    let lines: BTreeSet<(Rank, String)> =
        follows.iter().map(|finding| (finding.rank, line(finding))).collect();
    let hidden = lines.len().saturating_sub(MOST_LISTED);
    let shown: String = lines.into_iter().take(MOST_LISTED).map(|(_, line)| line).collect();
    let more = if hidden > 0 { format!("\nand {hidden} more") } else { String::new() };
    Some(format!("correct this one first; these may follow from it:{shown}{more}"))
}

/// A finding as text; `styled` for a terminal that shows colors.
pub fn render(finding: &Finding, files: &mut SourceFiles, styled: bool) -> String {
    rendered(finding, None, files, styled)
}

fn rendered(finding: &Finding, follows: Option<String>, files: &mut SourceFiles, styled: bool) -> String {
    for label in finding.labels.iter().chain(&finding.memory) {
        for source in label.source.iter().chain(&label.inlining.callers) {
            files.load(&source.file);
        }
    }
    let level = if finding.kind.is_remark() { Level::WARNING } else { Level::ERROR };
    let mut group =
        level.primary_title(&finding.message).id(finding.kind.code()).elements(snippets(finding, files));
    let inlined: BTreeSet<String> = finding.labels.iter().filter_map(|label| inlined(label, files)).collect();
    for note in finding.notes.iter().chain(&inlined) {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help));
    }
    for note in hidden_calls(finding, files) {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(follows) = &follows {
        group = group.element(Level::NOTE.message(follows));
    }
    let found = if finding.count > 1 { format!(", found {} times", finding.count) } else { String::new() };
    if !finding.kernel.is_empty() {
        group = group.element(Level::NOTE.message(format!("in kernel `{}`{found}", finding.kernel)));
    }
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    let groups: [Group<'_>; 1] = [group];
    renderer.render(&groups)
}

/// The calls of a label that no snippet shows: those in what its line calls, and those around it of
/// files that are not available.
fn inlined(label: &Label, files: &SourceFiles) -> Option<String> {
    let source = label.source.as_ref()?;
    let is_hidden = |source: &&Source| files.text(&source.file).is_none();
    let callers = label.inlining.callers.iter().filter(is_hidden).cloned().collect();
    let hidden = Inlining { callers, inside: label.inlining.inside.clone() };
    (hidden != Inlining::default()).then(|| format!("{source}{hidden}"))
}

/// Whether it is a line of the host's program.
fn is_of_host(label: &Label) -> bool {
    label.ptx_line == 0 && label.ptx_text.is_empty()
}

/// The lines of the host's program that no snippet shows, and what such a program did at no line.
fn hidden_calls(finding: &Finding, files: &SourceFiles) -> Vec<String> {
    let labels = finding.labels.iter().chain(&finding.memory).filter(|label| is_of_host(label));
    let hidden = labels.filter_map(|label| {
        let is_shown = label.source.as_ref().is_some_and(|source| files.text(&source.file).is_some());
        (!is_shown).then(|| label.to_string())
    });
    hidden.collect()
}

/// One snippet per file; lines of PTX separately, if the source is unknown or not available.
fn snippets<'a>(
    finding: &'a Finding,
    files: &'a SourceFiles,
) -> Vec<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let mut by_file: Vec<(&str, &str, Vec<annotate_snippets::Annotation<'a>>)> = Vec::new();
    let mut alone = Vec::new();
    let mut annotate = |source: &'a Source, kind: AnnotationKind, what: &'a str| -> Option<()> {
        let file = source.file.as_str();
        let text = files.text(file)?;
        let annotation = kind.span(span(text, source)?).label(what);
        match by_file.iter_mut().find(|(found, ..)| *found == file) {
            Some((_, _, annotations)) => annotations.push(annotation),
            None => by_file.push((file, text, vec![annotation])),
        }
        Some(())
    };
    for (index, label) in finding.labels.iter().chain(&finding.memory).enumerate() {
        let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let is_shown =
            label.source.as_ref().is_some_and(|source| annotate(source, kind, &label.text).is_some());
        if !is_shown && !is_of_host(label) {
            alone.push(of_ptx(label, kind));
        }
    }
    let callers: BTreeSet<&Source> =
        finding.labels.iter().flat_map(|label| &label.inlining.callers).collect();
    for caller in callers {
        annotate(caller, AnnotationKind::Context, "called from here");
    }
    let of_files = by_file
        .into_iter()
        .map(|(file, text, annotations)| Snippet::source(text).path(file).annotations(annotations));
    of_files.chain(alone).collect()
}

fn of_ptx(label: &Label, kind: AnnotationKind) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let path = match &label.source {
        Some(source) => format!("{source}, in PTX"),
        None => "PTX".to_owned(),
    };
    Snippet::source(&label.ptx_text)
        .line_start(label.ptx_line as usize)
        .path(path)
        .annotation(kind.span(0..label.ptx_text.trim_end_matches(';').len()).label(&label.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expression_at_a_position_is_underlined() {
        let cases = [
            ("    a[i] = b[63 - i] + 1; // note", "[63", "b[63 - i]"),
            ("    full.at(slot).wait_parity(parity ^ 1);", "wait", "full.at(slot).wait_parity(parity ^ 1)"),
            ("    sync_threads();", "sync", "sync_threads()"),
            (
                "    bulk::load(*input + 32, 32, tile, full);",
                "bulk",
                "bulk::load(*input + 32, 32, tile, full)",
            ),
            ("    tile[thread] = input[thread];", "tile", "tile[thread]"),
            ("    f(a[i], b);", "[i]", "a[i]"),
            ("    x.store(", "store", "x.store("),
            ("    let [a] = load::<f16, 1>(row);", "load", "load::<f16, 1>(row)"),
        ];
        for (line, at, underlined) in cases {
            let column = line.find(at).expect("it is there") as u32 + 1;
            let text = format!("first\n{line}\nlast\n");
            let span = span(&text, &Source { file: String::new(), line: 2, column }).expect("a line");
            assert_eq!(&text[span], underlined, "{line}");
        }
    }
}
