//! The query language of exports: one SELECT over events or persons, parsed and checked, and then written out for the
//! engine that holds the data. What users wrote is never pasted into SQL.

mod display;
mod expr;
mod function;
mod model;
mod parse;
mod render;
pub mod scalars;
mod schema;
mod text;

pub use expr::{Comparison, Expr, Extract, Field, Operation, Query, Value};
pub use function::Function;
pub use model::{Column, Model, Type};
pub use parse::{ParseError, parse};
pub use render::{Dialect, Rendered};
