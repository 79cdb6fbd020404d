//! From a checked query to the SQL of an engine.

mod clickhouse;
mod names;
mod sqlite;

use crate::expr::{Expr, Field, Query, Value};
use crate::model::{Column, Type};
use crate::text::{Piece, pieces};
use names::{clickhouse_type, quoted_in_clickhouse, quoted_in_sqlite};

/// How names begin that we give to expressions in ClickHouse; no alias of a user's does.
pub(crate) const RESERVED: &str = "hedgerow_";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Times are integers (microseconds), booleans 0 and 1, JSON is text. Parameters are `?N`. The connection has all of
    /// [`scalars`](crate::scalars).
    Sqlite,
    /// Times are `DateTime64(6, 'UTC')`. Parameters are `{pN:Type}`.
    ClickHouse,
}

/// The parts of a statement; the engine adds where from, which team and which interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// `expr AS "alias", …`
    pub columns: String,
    pub filter: Option<String>,
    /// The first is `?1` or `{p1:…}`. Only texts, whole numbers and fractions: a time is its microseconds.
    pub parameters: Vec<Value>,
}

impl Query {
    /// `column` names a column as the engine keeps it: an SQL expression. It should name the table too, as ClickHouse
    /// takes a bare name in a condition for the alias of the same name.
    pub fn render(&self, dialect: Dialect, column: &dyn Fn(Column) -> String) -> Rendered {
        let mut writer = Writer {
            dialect,
            column,
            parameters: Vec::new(),
            names: 0,
        };
        let columns: Vec<_> = self.fields.iter().map(|field| writer.field(field)).collect();
        let filter = self.filter.as_ref().map(|filter| writer.expr(filter));
        Rendered {
            columns: columns.join(", "),
            filter,
            parameters: writer.parameters,
        }
    }
}

/// Writes expressions down and collects their parameters. Every value and every key of a path becomes a parameter, and
/// every expression is written once, however deep: twice at each level would be too long at the tenth.
struct Writer<'a> {
    dialect: Dialect,
    column: &'a dyn Fn(Column) -> String,
    parameters: Vec<Value>,
    /// How many expressions have got a name of ours.
    names: usize,
}

impl Writer<'_> {
    fn field(&mut self, field: &Field) -> String {
        let expr = self.expr(&field.expr);
        match self.dialect {
            Dialect::Sqlite => format!("{expr} AS {}", quoted_in_sqlite(&field.alias)),
            Dialect::ClickHouse => {
                let kind = clickhouse_type(field.kind);
                format!(
                    "CAST({expr} AS Nullable({kind})) AS {}",
                    quoted_in_clickhouse(&field.alias)
                )
            }
        }
    }

    fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Column(column) => (self.column)(*column),
            Expr::Value(value) => self.value(value),
            Expr::And(left, right) => format!("({} AND {})", self.expr(left), self.expr(right)),
            Expr::Or(left, right) => format!("({} OR {})", self.expr(left), self.expr(right)),
            Expr::Not(expr) => format!("(NOT {})", self.expr(expr)),
            Expr::Compare(comparison, left, right) => {
                format!("({} {} {})", self.expr(left), comparison.symbol(), self.expr(right))
            }
            Expr::In { expr, list, is_negated } => self.in_list(expr, list, *is_negated),
            Expr::IsNull { expr, is_negated } => format!("({} IS {}NULL)", self.expr(expr), not(*is_negated)),
            Expr::Between {
                expr,
                low,
                high,
                is_negated,
            } => {
                let between = self.between(expr, low, high);
                format!("({}({between}))", not(*is_negated))
            }
            Expr::Case {
                operand,
                branches,
                otherwise,
            } => self.case(operand.as_deref(), branches, otherwise.as_deref()),
            other => match self.dialect {
                Dialect::Sqlite => self.sqlite(other),
                Dialect::ClickHouse => self.clickhouse(other),
            },
        }
    }

    fn exprs(&mut self, exprs: &[Expr]) -> Vec<String> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    /// No value is in a list without values. A null is in no list, also on an engine that would rather answer null.
    fn in_list(&mut self, expr: &Expr, list: &[Expr], is_negated: bool) -> String {
        let not = not(is_negated);
        if list.is_empty() {
            return format!("({not}(1 = 0))");
        }
        let expr = self.expr(expr);
        let list = self.exprs(list).join(", ");
        format!("({not}coalesce({expr} IN ({list}), 1 = 0))")
    }

    /// ClickHouse writes out BETWEEN as two comparisons, and so what is compared twice.
    fn between(&mut self, expr: &Expr, low: &Expr, high: &Expr) -> String {
        let (sql, low, high) = (self.expr(expr), self.expr(low), self.expr(high));
        if self.dialect == Dialect::Sqlite || matches!(expr, Expr::Column(_) | Expr::Value(_)) {
            return format!("{sql} BETWEEN {low} AND {high}");
        }
        self.once(&sql, |name| format!("({name} >= {low} AND {name} <= {high})"))
    }

    fn case(&mut self, operand: Option<&Expr>, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> String {
        let Some(operand) = operand.map(|operand| self.expr(operand)) else {
            return self.branches("CASE", "", branches, otherwise);
        };
        match self.dialect {
            Dialect::Sqlite => self.branches(&format!("CASE {operand}"), "", branches, otherwise),
            // Its own CASE of this form finds a null equal to a null.
            Dialect::ClickHouse => {
                let name = self.name();
                let branches = self.branches("CASE", &format!("{name} = "), branches, otherwise);
                format!("arrayMap({name} -> {branches}, [{operand}])[1]")
            }
        }
    }

    fn branches(&mut self, case: &str, is: &str, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> String {
        let mut words = vec![case.to_owned()];
        for (when, then) in branches {
            words.push(format!("WHEN {is}{} THEN {}", self.expr(when), self.expr(then)));
        }
        words.extend(otherwise.map(|otherwise| format!("ELSE {}", self.expr(otherwise))));
        words.push("END".to_owned());
        words.join(" ")
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::Text(_) => self.parameter(value.clone(), Type::Text),
            Value::Int(_) => self.parameter(value.clone(), Type::Int),
            Value::Float(_) => self.parameter(value.clone(), Type::Float),
            Value::Bool(is_true) => format!("(1 = {})", u8::from(*is_true)),
            Value::Time(micros) => {
                let parameter = self.parameter(Value::Int(*micros), Type::Int);
                match self.dialect {
                    Dialect::Sqlite => parameter,
                    Dialect::ClickHouse => format!("fromUnixTimestamp64Micro({parameter}, 'UTC')"),
                }
            }
            Value::Null => "NULL".to_owned(),
        }
    }

    fn parameter(&mut self, value: Value, kind: Type) -> String {
        self.parameters.push(value);
        let number = self.parameters.len();
        match self.dialect {
            Dialect::Sqlite => format!("?{number}"),
            Dialect::ClickHouse => format!("{{p{number}:{}}}", clickhouse_type(kind)),
        }
    }

    fn text(&mut self, text: &str) -> String {
        self.parameter(Value::Text(text.to_owned()), Type::Text)
    }

    /// ClickHouse: an expression that needs another one several times, by a name.
    ///
    /// An alias would do, but is put in for each mention of it, which at the twentieth level is too many.
    fn once(&mut self, sql: &str, body: impl FnOnce(&str) -> String) -> String {
        let name = self.name();
        format!("arrayMap({name} -> {}, [{sql}])[1]", body(&name))
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{RESERVED}{}", self.names)
    }
}

fn not(is_negated: bool) -> &'static str {
    if is_negated { "NOT " } else { "" }
}

/// The pieces of a pattern, all in lower case if case does not matter.
fn pattern_pieces(pattern: &str, ignores_case: bool) -> Vec<Piece> {
    if ignores_case {
        pieces(&pattern.to_ascii_lowercase())
    } else {
        pieces(pattern)
    }
}
