//! PTX as text: a writer from IR and a parser into a typed syntax tree.

pub mod syntax;
