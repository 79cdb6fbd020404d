//! A checked query.

use crate::function::{Function, Gives};
use crate::model::{Column, Model, Type};

/// One SELECT, checked: every column exists, every function is known and gets what it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub model: Model,
    pub fields: Vec<Field>,
    pub filter: Option<Expr>,
}

/// One column of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub alias: String,
    pub expr: Expr,
    pub kind: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// Microseconds since 1970.
    Time(i64),
    Null,
}

/// What is computed for each row. Null is the result wherever something that is needed is null, unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Column(Column),
    /// A value inside a JSON column, as text: null if it is absent or null, JSON if it is an array or an object.
    Property {
        column: Column,
        path: Vec<String>,
    },
    Value(Value),
    /// `expr IN (values)`. A null is in no list.
    In {
        expr: Box<Expr>,
        list: Vec<Expr>,
        is_negated: bool,
    },
    /// The JSON below a key of a JSON column, as JSON: what `JSONExtractRaw` gives, and null if there is none.
    Raw {
        column: Column,
        path: Vec<String>,
    },
    /// The value below a key if it is of the kind asked for, else the empty one: what `JSONExtractString` and others give.
    Extract {
        what: Extract,
        column: Column,
        path: Vec<String>,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Compute(Operation, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    /// `LIKE` with `%`, `_` and `\` before one that is meant as it stands; `ILIKE` takes A and a for the same.
    Like {
        expr: Box<Expr>,
        pattern: String,
        ignores_case: bool,
        is_negated: bool,
    },
    Between {
        expr: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        is_negated: bool,
    },
    IsNull {
        expr: Box<Expr>,
        is_negated: bool,
    },
    /// The result of the first branch whose condition holds, or whose value the operand equals. `if` and `multiIf` too.
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Call(Function, Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Arithmetic. Whole numbers stay whole and wrap around as in ClickHouse, but division always gives a fraction. What is
/// no number (a division by zero, an overflow) is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Of whole numbers only.
    Modulo,
}

/// What to take out of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extract {
    Text,
    Int,
    Float,
    Bool,
}

impl Value {
    /// None of a null.
    pub fn kind(&self) -> Option<Type> {
        match self {
            Self::Text(_) => Some(Type::Text),
            Self::Int(_) => Some(Type::Int),
            Self::Float(_) => Some(Type::Float),
            Self::Bool(_) => Some(Type::Bool),
            Self::Time(_) => Some(Type::Time),
            Self::Null => None,
        }
    }
}

impl Extract {
    pub fn kind(self) -> Type {
        match self {
            Self::Text => Type::Text,
            Self::Int => Type::Int,
            Self::Float => Type::Float,
            Self::Bool => Type::Bool,
        }
    }
}

impl Expr {
    /// What the expression gives; none if that is always null.
    pub fn kind(&self) -> Option<Type> {
        match self {
            Self::Column(column) => Some(column.kind()),
            Self::Property { .. } => Some(Type::Text),
            Self::Raw { .. } => Some(Type::Json),
            Self::Extract { what, .. } => Some(what.kind()),
            Self::Value(value) => value.kind(),
            Self::Compute(Operation::Divide, ..) => Some(Type::Float),
            Self::Compute(_, left, right) => {
                let is_float = [left, right].iter().any(|side| side.kind() == Some(Type::Float));
                Some(if is_float { Type::Float } else { Type::Int })
            }
            Self::Negate(expr) => expr.kind(),
            Self::Case {
                branches, otherwise, ..
            } => {
                let mut results = branches.iter().map(|(_, result)| result).chain(otherwise.as_deref());
                results.find_map(Self::kind)
            }
            Self::Call(function, arguments) => function.gives(arguments),
            Self::In { .. }
            | Self::And(..)
            | Self::Or(..)
            | Self::Not(_)
            | Self::Compare(..)
            | Self::Like { .. }
            | Self::Between { .. }
            | Self::IsNull { .. } => Some(Type::Bool),
        }
    }
}

impl Function {
    /// What a call of it gives; none if that is always null.
    fn gives(self, arguments: &[Expr]) -> Option<Type> {
        match self.definition().gives {
            Gives::Always(kind) => Some(kind),
            Gives::First => arguments.first().and_then(Expr::kind),
        }
    }
}

impl Query {
    /// These columns of a model, under their own names.
    pub fn of(model: Model, columns: &[Column]) -> Self {
        let field = |&column: &Column| Field {
            alias: column.name().to_owned(),
            expr: Expr::Column(column),
            kind: column.kind(),
        };
        Self {
            model,
            fields: columns.iter().map(field).collect(),
            filter: None,
        }
    }

    /// The same with one more condition.
    #[must_use]
    pub fn and(mut self, condition: Expr) -> Self {
        self.filter = Some(match self.filter {
            Some(filter) => Expr::And(Box::new(filter), Box::new(condition)),
            None => condition,
        });
        self
    }
}
