//! The normalized text of a query, which reads back as the same query.

use std::fmt;

use crate::expr::{Comparison, Expr, Extract, Operation, Query, Value};
use crate::model::Column;
use crate::text::time_text;

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        for (index, field) in self.fields.iter().enumerate() {
            let text = field.expr.to_string();
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(&text)?;
            if text != field.alias {
                write!(f, " AS {}", name(&field.alias))?;
            }
        }
        write!(f, " FROM {}", self.model.name())?;
        match &self.filter {
            Some(filter) => write!(f, " WHERE {filter}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, &mut ToString::to_string))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Bool(is_true) => write!(f, "{is_true}"),
            Self::Time(time) => write!(f, "toDateTime('{}')", time_text(*time)),
            Self::Null => f.write_str("NULL"),
        }
    }
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Operation {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Extract {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "JSONExtractString",
            Self::Int => "JSONExtractInt",
            Self::Float => "JSONExtractFloat",
            Self::Bool => "JSONExtractBool",
        }
    }
}

/// How a literal value is written.
pub(crate) type Literal<'a> = &'a mut dyn FnMut(&Value) -> String;

pub(crate) fn print(expr: &Expr, literal: Literal<'_>) -> String {
    match expr {
        Expr::Column(column) => column.name().to_owned(),
        Expr::Property { column, path } => property(*column, path),
        Expr::Raw { column, path } => extract("JSONExtractRaw", *column, path, literal),
        Expr::Extract { what, column, path } => extract(what.name(), *column, path, literal),
        Expr::Value(value) => literal(value),
        Expr::And(left, right) => infix(left, "AND", right, literal),
        Expr::Or(left, right) => infix(left, "OR", right, literal),
        Expr::Compare(comparison, left, right) => infix(left, comparison.symbol(), right, literal),
        Expr::Compute(operation, left, right) => infix(left, operation.symbol(), right, literal),
        Expr::Not(expr) => format!("NOT {}", operand(expr, literal)),
        Expr::Negate(expr) => format!("-{}", operand(expr, literal)),
        Expr::IsNull { expr, is_negated } => format!("{} IS {}NULL", operand(expr, literal), not(*is_negated)),
        Expr::In { expr, list, is_negated } => {
            let expr = operand(expr, literal);
            format!("{expr} {}IN ({})", not(*is_negated), commas(list, literal))
        }
        Expr::Like {
            expr,
            pattern,
            ignores_case,
            is_negated,
        } => {
            let word = if *ignores_case { "ILIKE" } else { "LIKE" };
            let expr = operand(expr, literal);
            format!(
                "{expr} {}{word} {}",
                not(*is_negated),
                literal(&Value::Text(pattern.clone()))
            )
        }
        Expr::Between {
            expr,
            low,
            high,
            is_negated,
        } => {
            let (expr, low) = (operand(expr, literal), operand(low, literal));
            format!(
                "{expr} {}BETWEEN {low} AND {}",
                not(*is_negated),
                operand(high, literal)
            )
        }
        Expr::Case {
            operand,
            branches,
            otherwise,
        } => case(operand.as_deref(), branches, otherwise.as_deref(), literal),
        Expr::Call(function, arguments) => format!("{}({})", function.name(), commas(arguments, literal)),
    }
}

fn not(is_negated: bool) -> &'static str {
    if is_negated { "NOT " } else { "" }
}

/// A chain from left to right needs no brackets, however long it is.
fn infix(left: &Expr, symbol: &str, right: &Expr, literal: Literal<'_>) -> String {
    let is_chain = match left {
        Expr::And(..) => symbol == "AND",
        Expr::Or(..) => symbol == "OR",
        Expr::Compute(Operation::Add | Operation::Subtract, ..) => matches!(symbol, "+" | "-"),
        Expr::Compute(..) => matches!(symbol, "*" | "/" | "%"),
        _ => false,
    };
    let left = if is_chain {
        print(left, literal)
    } else {
        operand(left, literal)
    };
    format!("{left} {symbol} {}", operand(right, literal))
}

/// In brackets unless it can be nothing but one thing.
fn operand(expr: &Expr, literal: Literal<'_>) -> String {
    let text = print(expr, literal);
    match expr {
        Expr::Column(_)
        | Expr::Property { .. }
        | Expr::Raw { .. }
        | Expr::Extract { .. }
        | Expr::Value(_)
        | Expr::Call(..)
        | Expr::Case { .. } => text,
        _ => format!("({text})"),
    }
}

fn commas(items: &[Expr], literal: Literal<'_>) -> String {
    let items: Vec<_> = items.iter().map(|item| print(item, literal)).collect();
    items.join(", ")
}

fn case(operand: Option<&Expr>, branches: &[(Expr, Expr)], otherwise: Option<&Expr>, literal: Literal<'_>) -> String {
    let mut words = vec!["CASE".to_owned()];
    words.extend(operand.map(|operand| print(operand, literal)));
    for (when, then) in branches {
        let when = print(when, literal);
        words.push(format!("WHEN {when} THEN {}", print(then, literal)));
    }
    words.extend(otherwise.map(|otherwise| format!("ELSE {}", print(otherwise, literal))));
    words.push("END".to_owned());
    words.join(" ")
}

fn extract(function: &str, column: Column, path: &[String], literal: Literal<'_>) -> String {
    let mut arguments = vec![column.name().to_owned()];
    arguments.extend(path.iter().map(|key| literal(&Value::Text(key.clone()))));
    format!("{function}({})", arguments.join(", "))
}

fn property(column: Column, path: &[String]) -> String {
    let key = |key: &String| {
        if is_plain(key) {
            format!(".{key}")
        } else {
            format!("[{}]", quoted(key))
        }
    };
    let keys: String = path.iter().map(key).collect();
    column.name().to_owned() + &keys
}

fn is_plain(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '$');
    name.chars().all(is_part) && name.starts_with(|char: char| !char.is_ascii_digit())
}

fn name(alias: &str) -> String {
    if is_plain(alias) {
        alias.to_owned()
    } else {
        format!("`{}`", alias.replace('`', "``"))
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
