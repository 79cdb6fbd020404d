//! What ClickHouse says in its own way.

mod call;
mod time;

use super::{Writer, not, pattern_pieces};
use crate::expr::{Expr, Extract, Operation};
use crate::model::{Column, Type};
use crate::text::Piece;

impl Writer<'_> {
    pub(super) fn clickhouse(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Property { column, path } => {
                let at = self.clickhouse_path(*column, path);
                format!(
                    "if(JSONType({at}) = 'String', JSONExtractString({at}), \
                     nullIf(nullIf(JSONExtractRaw({at}), ''), 'null'))"
                )
            }
            Expr::Raw { column, path } => {
                let at = self.clickhouse_path(*column, path);
                format!("nullIf(JSONExtractRaw({at}), '')")
            }
            Expr::Extract { what, column, path } => self.clickhouse_extract(*what, *column, path),
            Expr::Compute(Operation::Modulo, left, right) => {
                let (left, right) = (self.number(left, Type::Int), self.number(right, Type::Int));
                self.clickhouse_modulo(&left, &right)
            }
            Expr::Compute(..) => {
                let computed = self.computed(expr);
                if expr.kind() == Some(Type::Float) {
                    self.finite(&computed)
                } else {
                    computed
                }
            }
            Expr::Negate(inner) => {
                let kind = expr.kind().unwrap_or(Type::Int);
                format!("negate({})", self.number(inner, kind))
            }
            Expr::Like {
                expr,
                pattern,
                ignores_case,
                is_negated,
            } => {
                let expr = self.expr(expr);
                let expr = if *ignores_case { format!("lower({expr})") } else { expr };
                let pattern = self.text(&escaped(pattern, *ignores_case));
                format!("({}({expr} LIKE {pattern}))", not(*is_negated))
            }
            Expr::Call(function, arguments) => self.clickhouse_call(*function, arguments),
            other => unreachable!("written for both engines: {other:?}"),
        }
    }

    fn clickhouse_extract(&mut self, what: Extract, column: Column, path: &[String]) -> String {
        let at = self.clickhouse_path(column, path);
        let (kinds, function, empty) = match what {
            Extract::Text => ("'String'", "JSONExtractString", "''"),
            Extract::Int => ("'Int64'", "JSONExtractInt", "toInt64(0)"),
            Extract::Float => ("'Int64', 'UInt64', 'Double'", "JSONExtractFloat", "toFloat64(0)"),
            Extract::Bool => ("'Bool'", "JSONExtractBool", "false"),
        };
        format!("if(JSONType({at}) IN ({kinds}), {function}({at}), {empty})")
    }

    /// `json, key, key`: how the JSON functions take a path.
    fn clickhouse_path(&mut self, column: Column, path: &[String]) -> String {
        let mut at = (self.column)(column);
        for key in path {
            let key = self.text(key);
            at = format!("{at}, {key}");
        }
        at
    }

    /// Arithmetic, which may end in what is no number. A chain is looked at once, at its end: of what is no number nothing
    /// comes that is one, but by dividing by it.
    fn computed(&mut self, expr: &Expr) -> String {
        let kind = expr.kind().unwrap_or(Type::Int);
        let Expr::Compute(operation, left, right) = expr else {
            return self.number(expr, kind);
        };
        let name = match operation {
            Operation::Add => "plus",
            Operation::Subtract => "minus",
            Operation::Multiply => "multiply",
            Operation::Divide => return format!("divide({}, {})", self.part(left, kind), self.number(right, kind)),
            Operation::Modulo => return self.number(expr, kind),
        };
        format!("{name}({}, {})", self.part(left, kind), self.part(right, kind))
    }

    fn part(&mut self, expr: &Expr, kind: Type) -> String {
        if matches!(expr, Expr::Compute(..)) && expr.kind() == Some(kind) {
            self.computed(expr)
        } else {
            self.number(expr, kind)
        }
    }

    /// A number that is exactly of its kind, so that arithmetic with it is too.
    fn number(&mut self, expr: &Expr, kind: Type) -> String {
        let sql = self.expr(expr);
        number(&sql, Some(kind))
    }

    /// By -1 the smallest number cannot be divided; the rest is the same by 1.
    fn clickhouse_modulo(&mut self, left: &str, right: &str) -> String {
        let divisor = self.once(right, |name| format!("nullIf(if({name} = -1, toInt64(1), {name}), 0)"));
        format!("modulo({left}, {divisor})")
    }

    pub(super) fn finite(&mut self, sql: &str) -> String {
        self.once(sql, |name| format!("if(isFinite({name}), {name}, NULL)"))
    }
}

fn number(sql: &str, kind: Option<Type>) -> String {
    match kind {
        Some(Type::Float) => format!("toFloat64({sql})"),
        _ => format!("toInt64({sql})"),
    }
}

fn escaped(pattern: &str, ignores_case: bool) -> String {
    let mut escaped = String::new();
    for piece in pattern_pieces(pattern, ignores_case) {
        match piece {
            Piece::Anything => escaped.push('%'),
            Piece::AnyChar => escaped.push('_'),
            Piece::Char(char @ ('%' | '_' | '\\')) => escaped.extend(['\\', char]),
            Piece::Char(char) => escaped.push(char),
        }
    }
    escaped
}
