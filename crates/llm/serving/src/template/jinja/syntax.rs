//! The tree of a template.

use std::sync::Arc;

/// Statements that follow each other.
pub(super) type Body = Vec<Node>;

/// A statement, and its line.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) statement: Statement,
}

#[derive(Debug)]
pub(super) enum Statement {
    Text(Arc<str>),
    Output(Expression),
    For(Arc<For>),
    /// The branches, the last without a condition.
    If(Vec<(Option<Expression>, Body)>),
    Set(Target, Expression),
    /// The text of a body, through filters.
    SetBlock(Target, Vec<Filter>, Body),
    Macro(Arc<Macro>),
    /// A call of a macro that gets the body as `caller`.
    Call(Expression, Arc<Macro>),
    FilterBlock(Vec<Filter>, Body),
    /// A body with variables of its own.
    With(Vec<(Target, Expression)>, Body),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expression,
    pub(super) condition: Option<Expression>,
    pub(super) is_recursive: bool,
    pub(super) body: Body,
    pub(super) otherwise: Body,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: String,
    pub(super) parameters: Vec<(String, Option<Expression>)>,
    pub(super) body: Body,
    /// Those of [`EXTRA`] that the body reads.
    extra: Vec<&'static str>,
}

/// What a macro can read beside its parameters. Each changes which arguments it takes.
const EXTRA: [&str; 3] = ["varargs", "kwargs", "caller"];

impl Macro {
    pub(super) fn new(name: String, parameters: Vec<(String, Option<Expression>)>, body: Body) -> Macro {
        // The printed tree has all names.
        let tree = format!("{body:?}");
        let extra = EXTRA.into_iter().filter(|name| tree.contains(&format!("Name({name:?})"))).collect();
        Macro { name, parameters, body, extra }
    }

    /// Whether the body reads one of [`EXTRA`].
    pub(super) fn reads(&self, name: &str) -> bool {
        self.extra.contains(&name)
    }
}

/// What is assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    /// An attribute of a namespace.
    Attribute(String, String),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) enum Expression {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    Name(String),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Dict(Vec<(Expression, Expression)>),
    Attribute(Box<Expression>, String),
    Item(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, [Option<Box<Expression>>; 3]),
    Call(Box<Expression>, Arguments),
    Filter(Box<Expression>, Filter),
    Test(Box<Expression>, Filter),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Positive(Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    /// Texts side by side.
    Concat(Vec<Expression>),
    /// Condition, value, and the value otherwise.
    If(Box<Expression>, Box<Expression>, Option<Box<Expression>>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// A filter or a test with its arguments.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expression>,
    pub(super) named: Vec<(String, Expression)>,
    /// `*` and `**`.
    pub(super) list: Option<Box<Expression>>,
    pub(super) dict: Option<Box<Expression>>,
}
