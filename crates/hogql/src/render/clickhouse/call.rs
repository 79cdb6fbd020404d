//! The functions of a query, in ClickHouse.

use super::super::Writer;
use super::number;
use super::time::{micros, time};
use crate::expr::Expr;
use crate::function::Function;
use crate::model::Type;

impl Writer<'_> {
    pub(super) fn clickhouse_call(&mut self, function: Function, arguments: &[Expr]) -> String {
        let kind = arguments.first().and_then(Expr::kind);
        let written = self.exprs(arguments);
        let all = written.join(", ");
        match function {
            Function::ToString => match kind {
                Some(Type::Bool) => format!("toString(toBool({all}))"),
                Some(Type::Time) => format!("toString({})", time(&all)),
                Some(Type::Int | Type::Float) => format!("toString({})", number(&all, kind)),
                _ => all,
            },
            Function::ToInt => match kind {
                Some(Type::Text) => {
                    let digits = format!("extract({all}, '^[+-]?[0-9]{{1,19}}$')");
                    format!("accurateCastOrNull(toInt128OrNull({digits}), 'Int64')")
                }
                Some(Type::Float) => format!("accurateCastOrNull(trunc({all}), 'Int64')"),
                _ => number(&all, Some(Type::Int)),
            },
            Function::ToFloat => match kind {
                Some(Type::Text) => {
                    let digits = r"^([+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?)$";
                    self.finite(&format!("toFloat64OrNull(extract({all}, '{digits}'))"))
                }
                _ => number(&all, Some(Type::Float)),
            },
            Function::ToBool => match kind {
                Some(Type::Text) => format!(
                    "toBool(toUInt8OrNull(transform(lower({all}), ['true', '1', 'false', '0'], ['1', '1', '0', '0'], '')))"
                ),
                _ => format!("({all} != 0)"),
            },
            Function::ToDateTime => self.as_time(kind, &all),
            Function::ToDate => {
                let time = self.as_time(kind, &all);
                self.start_of(Function::ToStartOfDay, &time)
            }
            Function::Lower => format!("lower({all})"),
            Function::Upper => format!("upper({all})"),
            Function::Trim => format!("trimBoth({all})"),
            Function::Length => format!("toInt64(lengthUTF8({all}))"),
            Function::Substring => format!("substringUTF8({all})"),
            Function::ReplaceAll => format!("replaceAll({all})"),
            Function::Concat => {
                let texts: Vec<_> = written.iter().map(|text| format!("ifNull({text}, '')")).collect();
                format!("concat({}, '')", texts.join(", "))
            }
            Function::StartsWith => format!("startsWith({all})"),
            Function::EndsWith => format!("endsWith({all})"),
            Function::Position => format!("toInt64(positionUTF8({all}))"),
            Function::Empty => format!("({all} = '')"),
            Function::NotEmpty => format!("({all} != '')"),
            Function::Coalesce => format!("coalesce({all})"),
            Function::NullIf => format!("nullIf({all})"),
            Function::Least => self.one_of("<", &written),
            Function::Greatest => self.one_of(">", &written),
            Function::Abs if kind == Some(Type::Int) => format!("toInt64(abs({all}))"),
            Function::Abs => format!("abs({all})"),
            Function::Round | Function::Floor | Function::Ceil if kind == Some(Type::Int) => written[0].clone(),
            Function::Round => {
                let rounded = format!("round({all})");
                self.finite(&rounded)
            }
            Function::Floor => format!("floor({all})"),
            Function::Ceil => format!("ceil({all})"),
            Function::ToUnixTimestamp => format!("toInt64(floor({} / 1000000))", micros(&all)),
            Function::ToStartOfMonth => self.start_of_month(&all),
            Function::ToYear => format!("toInt64(toYear({}))", time(&all)),
            Function::ToMonth => format!("toInt64(toMonth({}))", time(&all)),
            Function::ToDayOfMonth => format!("toInt64(toDayOfMonth({}))", time(&all)),
            Function::ToHour => format!("toInt64(toHour({}))", time(&all)),
            Function::ToStartOfMinute
            | Function::ToStartOfHour
            | Function::ToStartOfDay
            | Function::ToStartOfWeek
            | Function::ToMonday => self.start_of(function, &all),
        }
    }

    /// The first if it compares like this with the second, else the second; null if one of them is, which ClickHouse's
    /// own functions have been of two minds about.
    fn one_of(&mut self, comparison: &str, written: &[String]) -> String {
        let (one, other) = (self.name(), self.name());
        let either =
            format!("multiIf(isNull({one}) OR isNull({other}), NULL, {one} {comparison} {other}, {one}, {other})");
        format!(
            "arrayMap(({one}, {other}) -> {either}, [{}], [{}])[1]",
            written[0], written[1]
        )
    }
}
