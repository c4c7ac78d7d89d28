//! The names by which a package depends on the kernel language, from its `Cargo.toml`.
//!
//! A dependency may be renamed: `ww = { package = "warpwright", version = "0.1" }`. A whole TOML parser
//! would be compiled before everything else, for three forms of one entry.

use std::fs;
use std::path::Path;

/// The package of the kernel language, and the facade that most programs depend on.
pub(crate) const LANGUAGE: &str = "warpwright-lang";
const FACADE: &str = "warpwright";

/// The names of the packages, where the package depends on them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) language: Option<String>,
    pub(crate) facade: Option<String>,
}

/// A dependency as a manifest writes it.
#[derive(Clone, Debug, Default)]
struct Dependency {
    name: String,
    package: Option<String>,
    is_of_workspace: bool,
}

impl Names {
    /// The names in the manifest of the package in `folder`.
    pub(crate) fn of_package(folder: &Path) -> Self {
        let read = |folder: &Path| fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let is_workspace = |text: &String| text.lines().any(|line| line.trim().starts_with("[workspace"));
        let workspace = || folder.ancestors().map(read).find(is_workspace).unwrap_or_default();
        Self::of_manifest(&read(folder), workspace)
    }

    fn of_manifest(manifest: &str, workspace: impl FnOnce() -> String) -> Self {
        let mut dependencies = dependencies(manifest, false);
        if dependencies.iter().any(|dependency| dependency.is_of_workspace) {
            let shared = self::dependencies(&workspace(), true);
            for dependency in dependencies.iter_mut().filter(|dependency| dependency.is_of_workspace) {
                let of_workspace = shared.iter().find(|shared| shared.name == dependency.name);
                dependency.package = of_workspace.and_then(|shared| shared.package.clone());
            }
        }
        let named = |package: &str| {
            let is_it = |dependency: &&Dependency| {
                dependency.package.as_deref().unwrap_or(&dependency.name) == package
            };
            dependencies.iter().find(is_it).map(|dependency| dependency.name.clone())
        };
        Self { language: named(LANGUAGE), facade: named(FACADE) }
    }
}

/// The dependencies in a manifest: of the package, or those that its workspace shares.
fn dependencies(manifest: &str, of_workspace: bool) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut table: Vec<String> = Vec::new();
    for line in manifest.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = keys(header);
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let path: Vec<String> = table.iter().cloned().chain(keys(key)).collect();
        let is_table = |key: &String| key.ends_with("dependencies");
        let Some(at) = path.iter().position(is_table) else { continue };
        let (Some(name), true) = (path.get(at + 1), (path[0] == "workspace") == of_workspace) else {
            continue;
        };
        let known = found.iter().position(|dependency| dependency.name == *name).unwrap_or_else(|| {
            found.push(Dependency { name: name.clone(), ..Dependency::default() });
            found.len() - 1
        });
        let value = value.trim();
        let fields = value.strip_prefix('{').unwrap_or_default().trim_end_matches('}').split(',');
        let inline = fields.filter_map(|field| field.split_once('='));
        let field = path.get(at + 2).map(|field| (field.as_str(), value));
        for (field, value) in inline.chain(field) {
            match field.trim() {
                "package" => found[known].package = Some(unquoted(value)),
                "workspace" => found[known].is_of_workspace = value.trim() == "true",
                _ => {}
            }
        }
    }
    found
}

/// The parts of a dotted key. A quoted part, such as the `cfg` of a target, is one.
fn keys(dotted: &str) -> Vec<String> {
    let mut quote = None;
    let parts = dotted.split(|letter: char| {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
        letter == '.' && quote.is_none()
    });
    parts.map(unquoted).collect()
}

fn unquoted(value: &str) -> String {
    value.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str) -> (Option<String>, Option<String>) {
        let workspace = r#"
            [workspace.dependencies]
            kernels = { package = "warpwright", path = "../warpwright" }
            warpwright = { version = "0.1" }
        "#;
        let Names { language, facade } = Names::of_manifest(manifest, || workspace.to_owned());
        (language, facade)
    }

    fn facade(name: &str) -> (Option<String>, Option<String>) {
        (None, Some(name.to_owned()))
    }

    #[test]
    fn a_dependency_has_the_name_that_the_manifest_gives_it() {
        let manifests = [
            ("[dependencies]\nwarpwright = \"0.1\"", "warpwright"),
            ("[dependencies]\nwarpwright.workspace = true", "warpwright"),
            ("[dev-dependencies]\nwarpwright = { path = \"..\" } # by its own name", "warpwright"),
            ("[dependencies]\nww = { package = \"warpwright\", version = \"0.1\" }", "ww"),
            (
                "[dependencies]\nww = { version = \"0.1\", features = [\"a\", \"b\"], package = 'warpwright' }",
                "ww",
            ),
            ("[dependencies.my-kernels]\nversion = \"0.1\"\npackage = \"warpwright\"", "my-kernels"),
            ("[dependencies]\nww.package = \"warpwright\"\nww.path = \"..\"", "ww"),
            ("[target.'cfg(unix)'.dependencies]\nww = { package = \"warpwright\" }", "ww"),
            ("[target.\"cfg(unix.family)\".dependencies.ww]\npackage = \"warpwright\"", "ww"),
            ("[dependencies]\nkernels.workspace = true", "kernels"),
            ("[dependencies]\nkernels = { workspace = true }", "kernels"),
            (
                "[package]\nname = \"warpwright-user\"\n[dependencies]\nww = { package = \"warpwright\" }",
                "ww",
            ),
        ];
        for (manifest, name) in manifests {
            assert_eq!(names(manifest), facade(name), "{manifest}");
        }
    }

    #[test]
    fn the_language_may_be_a_dependency_itself() {
        let both = "[dependencies]\nwarpwright-lang = \"0.1\"\nwarpwright = \"0.1\"";
        assert_eq!(names(both), (Some("warpwright-lang".to_owned()), Some("warpwright".to_owned())));
        let renamed = "[dependencies]\nlanguage = { package = \"warpwright-lang\" }";
        assert_eq!(names(renamed), (Some("language".to_owned()), None));
    }

    #[test]
    fn a_manifest_may_name_neither() {
        let manifest =
            "# warpwright = \"0.1\"\n[package]\nname = \"warpwright-lang\"\n[dependencies]\nserde = \"1\"";
        assert_eq!(names(manifest), (None, None));
        // What a workspace shares is a dependency of those that take it.
        assert_eq!(names("[workspace.dependencies]\nwarpwright = \"0.1\""), (None, None));
    }
}
