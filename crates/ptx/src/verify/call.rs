//! Calls against what they call.

use super::declaration::{bytes, is_open};
use super::names::{Meaning, Names};
use super::operand::{Class, class};
use crate::syntax::{Instruction, Number, Operand, StateSpace, Statement, Type, Variable};

/// The results and parameters of a function.
type Formals<'m> = (&'m [Variable], &'m [Variable]);

impl<'m> Names<'_, 'm> {
    pub(super) fn call(&self, i: &Instruction) -> Result<(), String> {
        self.declared(&i.operands)?;
        let (returns, rest) = match i.operands.as_slice() {
            [Operand::List(returns), rest @ ..] => (returns.as_slice(), rest),
            all => (&[][..], all),
        };
        let [Operand::Name(callee), rest @ ..] = rest else {
            return Err("`call` names a function or a register with the address of one.".to_owned());
        };
        let arguments = match rest {
            [Operand::List(arguments), ..] => arguments.as_slice(),
            _ => &[][..],
        };
        match self.meaning(callee) {
            Some(Meaning::Function(function)) if function.is_entry => {
                Err(format!("`{callee}` is a kernel; only functions are called."))
            }
            Some(Meaning::Function(function)) => {
                self.passed(callee, returns, arguments, (&function.returns, &function.parameters))
            }
            Some(Meaning::Register(_)) => {
                let Some(Operand::Name(list)) = rest.last() else {
                    return Err("A call by address names a `.callprototype` or a `.calltargets` list last."
                        .to_owned());
                };
                let Some(Meaning::Prototype(statement)) = self.meaning(list) else {
                    return Err(format!("`{list}` is not a `.callprototype` or a `.calltargets` list."));
                };
                for formals in self.formals(statement)? {
                    self.passed(list, returns, arguments, formals)?;
                }
                Ok(())
            }
            Some(other) => Err(format!("`{callee}` is {}, not a function.", other.describe())),
            None => Err(format!("`{callee}` is not declared.")),
        }
    }

    /// The formals of a prototype, or of each function of a list.
    fn formals(&self, statement: &'m Statement) -> Result<Vec<Formals<'m>>, String> {
        match statement {
            Statement::CallPrototype { returns, parameters, .. } => Ok(vec![(returns, parameters)]),
            Statement::CallTargets { targets, .. } => targets
                .iter()
                .map(|target| match self.meaning(target) {
                    Some(Meaning::Function(function)) if !function.is_entry => {
                        Ok((&function.returns[..], &function.parameters[..]))
                    }
                    _ => Err(format!("`{target}` is not a function that can be called.")),
                })
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Compares what a call passes and receives with the formals of `callee`.
    fn passed(
        &self,
        callee: &str,
        returns: &[Operand],
        arguments: &[Operand],
        (results, parameters): Formals<'_>,
    ) -> Result<(), String> {
        // An array without an extent takes what is left, or nothing.
        let least = parameters.len() - usize::from(parameters.last().is_some_and(is_open));
        for (what, own, least, formals) in
            [("arguments", arguments, least, parameters), ("results", returns, results.len(), results)]
        {
            if !(least..=formals.len()).contains(&own.len()) {
                return Err(format!(
                    "The call has {} {what}, and `{callee}` has {}.",
                    own.len(),
                    formals.len()
                ));
            }
            for (own, formal) in own.iter().zip(formals) {
                let said = match own {
                    Operand::Sink if what == "results" => continue,
                    Operand::Sink => Some("`_` passes no value".to_owned()),
                    Operand::Number(number) => (!literal_passes(*number, formal))
                        .then(|| format!("`{own}` is a literal of another type")),
                    Operand::Name(name) => self.argument(name, formal),
                    _ => None,
                };
                if let Some(said) = said {
                    return Err(format!("{said}: `{callee}` has `{formal}` here."));
                }
            }
        }
        Ok(())
    }

    /// What is wrong with a register or variable for a formal.
    fn argument(&self, name: &str, formal: &Variable) -> Option<String> {
        match self.meaning(name)? {
            Meaning::Register(ty) if formal.vector == 1 => {
                let fits = formal.dimensions.is_empty() && types_pass(ty, formal.ty);
                (!fits).then(|| format!("`{name}` is a .{} register", ty.word()))
            }
            Meaning::Variable(StateSpace::Parameter) => {
                let own = self.variable(name)?;
                let fits = match (own.dimensions.is_empty(), formal.dimensions.is_empty()) {
                    (true, true) => types_pass(own.ty, formal.ty),
                    (false, false) => {
                        (is_open(formal) || bytes(own) == bytes(formal))
                            && alignment(own) == alignment(formal)
                    }
                    _ => false,
                };
                (!fits).then(|| format!("The argument is `{own}`"))
            }
            Meaning::Variable(space) => {
                Some(format!("`{name}` is in .{}, and calls pass .param", space.word()))
            }
            _ => None,
        }
    }
}

/// Whether a value of one type is passed for a formal of another.
fn types_pass(own: Type, formal: Type) -> bool {
    let is_mixed = |a, b| (class(own), class(formal)) == (a, b) || (class(formal), class(own)) == (a, b);
    own.bytes() == formal.bytes()
        && (own == Type::Pred) == (formal == Type::Pred)
        && !is_mixed(Class::Float, Class::Integer)
}

fn literal_passes(number: Number, formal: &Variable) -> bool {
    let is_integer = matches!(number, Number::Integer(_));
    match class(formal.ty) {
        _ if !formal.dimensions.is_empty() => false,
        Class::Float => !is_integer,
        Class::Integer => is_integer,
        Class::Predicate => false,
        Class::Bits | Class::HalfPair => true,
    }
}

fn alignment(variable: &Variable) -> u32 {
    variable.align.unwrap_or(variable.ty.bytes() * variable.vector)
}
