//! What ptxas refuses in a module that parses.
//!
//! Instructions are compared with the rows of the instruction table ([`warpwright_arch::instructions`]):
//! the spelling, the PTX version and target that have it, and its operands. A name with words that the
//! table does not have is not an error, since it may be of a later version of PTX. Names, labels,
//! variables and directives follow the PTX ISA, and ptxas 13.0 where it takes more.

mod call;
mod declaration;
mod error;
mod initial;
mod instruction;
mod names;
mod operand;
mod space;
mod statement;
mod value;

use crate::syntax::{Function, Linkage, Module};
use error::Subject;
pub use error::VerifyError;
pub use instruction::rows;
use names::{Meaning, Names, Scope};
use statement::Statements;

/// Checks a module, and returns its errors in the order of the text; none if ptxas takes it.
///
/// ```
/// let module = warpwright_ptx::parse(".version 7.0 .target sm_80 .entry k() { .reg .f32 %f<4>; fma.f32 %f1, %f1, %f2, %f3; }")?;
/// let errors = warpwright_ptx::verify(&module);
/// assert_eq!(errors[0].message, "`fma.f32` does not exist. PTX has `fma(.rn|.rz|.rm|.rp){.ftz}{.sat}.f32`.");
/// # Ok::<(), warpwright_ptx::ParseError>(())
/// ```
pub fn verify(module: &Module) -> Vec<VerifyError> {
    let mut errors = Vec::new();
    let subject = Subject::default();
    if let Err(message) = declaration::head(module) {
        errors.push(subject.error(0, String::new(), message));
        return errors;
    }
    let scope = module_scope(module, &mut errors);
    let mut constants = 0;
    for (index, variable) in module.variables.iter().enumerate() {
        let meaning = |name: &str| declared_before(module, index, name).then(|| scope.get(name)).flatten();
        let checked = declaration::variable(variable, &meaning)
            .and_then(|()| declaration::of_module(variable, module, &mut constants));
        if let Err(message) = checked {
            errors.push(subject.error(variable.line, variable.to_string(), message));
        }
    }
    for (alias, function) in &module.aliases {
        if let Err(message) = declaration::alias(alias, function, &scope) {
            errors.push(subject.error(0, format!(".alias {alias}, {function};"), message));
        }
    }
    for function in module.functions.iter().filter(|function| function.is_entry) {
        let is_defined =
            matches!(scope.get(&function.name), Some(Meaning::Function(own)) if own.body.is_some());
        if !is_defined && function.linkage != Linkage::Extern {
            let message = format!("The kernel `{}` is declared and not defined.", function.name);
            errors.push(subject.error(function.line, String::new(), message));
        }
    }
    let mut statements = Statements::new(Names::new(module, &scope), &mut errors);
    module.functions.iter().for_each(|function| statements.function(function));
    errors
}

/// Whether a name is declared before a variable of the module, which may then hold its address.
fn declared_before(module: &Module, index: usize, name: &str) -> bool {
    let line = module.variables[index].line;
    module.variables[..index].iter().any(|variable| variable.name == name)
        || module.functions.iter().any(|function| function.name == name && function.line <= line)
}

/// The names of a module.
fn module_scope<'m>(module: &'m Module, errors: &mut Vec<VerifyError>) -> Scope<'m> {
    let subject = Subject::default();
    let mut scope = Scope::default();
    let mut declared: Vec<&Function> = Vec::new();
    for function in &module.functions {
        let earlier = declared.iter().find(|earlier| earlier.name == function.name);
        let said = earlier.and_then(|earlier| redefinition(earlier, function));
        errors.extend(said.map(|said| subject.error(function.line, String::new(), said)));
        if earlier.is_none_or(|earlier| earlier.body.is_none()) {
            // The definition is what its name means.
            let _ = scope.insert(&function.name, Meaning::Function(function));
        }
        declared.push(function);
    }
    for variable in &module.variables {
        // A declaration of what another module defines may stand beside another.
        if !scope.declare(variable) && variable.linkage != Linkage::Extern {
            let message = format!("`{}` is declared twice.", variable.name);
            errors.push(subject.error(variable.line, variable.to_string(), message));
        }
    }
    scope
}

/// What is wrong with a second function of the same name.
fn redefinition(earlier: &Function, later: &Function) -> Option<String> {
    let name = &later.name;
    if earlier.is_entry != later.is_entry {
        return Some(format!("`{name}` is both a kernel and a function."));
    }
    if earlier.body.is_some() && later.body.is_some() {
        return Some(format!("`{name}` is defined twice."));
    }
    if !declaration::is_same_type(earlier, later) {
        return Some(format!("The declarations of `{name}` have different parameters."));
    }
    let (own, first) = (later.linkage, earlier.linkage);
    let is_changed = own != first && own != Linkage::Private || first == Linkage::Extern;
    (later.body.is_some() && is_changed).then(|| {
        let words = |linkage: Linkage| match linkage {
            Linkage::Private => "without a linking directive".to_owned(),
            linkage => format!("as {}", linkage.to_string().trim()),
        };
        format!("`{name}` is declared {} and defined {}.", words(first), words(own))
    })
}
