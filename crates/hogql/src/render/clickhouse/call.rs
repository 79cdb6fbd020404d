//! The functions of a query, in ClickHouse.

use super::super::Writer;
use super::number;
use super::time::{micros, time};
use crate::expr::Expr;
use crate::function::Function;
use crate::model::Type;
use crate::scalars::MAX_TEXT;

/// How many texts are put together at a time.
const AT_A_TIME: usize = 10;

/// A value, if what is made of it has not too many bytes. The other one is never used, but has its type.
fn unless_too_long(bytes: &str, value: &str, other: &str) -> String {
    format!("if(throwIf(ifNull({bytes}, 0) > {MAX_TEXT}, 'a text is too long') = 0, {value}, {other})")
}

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
            Function::ReplaceAll => self.replace_all(&written),
            Function::Concat => {
                let texts = written.iter().map(|text| format!("ifNull({text}, '')")).collect();
                self.concat(texts)
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

    /// A result that would be too long is an error before it is there, as in SQLite. Each argument is written once, or queries of nested
    /// calls would grow with every level.
    fn replace_all(&mut self, written: &[String]) -> String {
        let (text, part, by) = (self.name(), self.name(), self.name());
        let bytes = |of: &str| format!("toInt64(length({of}))");
        let growth = format!("countSubstrings({text}, {part}) * ({} - {})", bytes(&by), bytes(&part));
        // What does not get longer was not too long.
        let length = format!("if(length({by}) > length({part}), {} + {growth}, 0)", bytes(&text));
        let checked = unless_too_long(&length, &text, "NULL");
        let arrays: Vec<_> = written.iter().map(|one| format!("[{one}]")).collect();
        format!(
            "arrayMap(({text}, {part}, {by}) -> replaceAll({checked}, {part}, {by}), {})[1]",
            arrays.join(", ")
        )
    }

    /// Few at a time, as their lengths are added up when all of them are there.
    fn concat(&mut self, mut texts: Vec<String>) -> String {
        loop {
            texts = texts.chunks(AT_A_TIME).map(|few| self.concat_few(few)).collect();
            if texts.len() < 2 {
                return texts.pop().unwrap_or_else(|| "''".to_owned());
            }
        }
    }

    fn concat_few(&mut self, texts: &[String]) -> String {
        let (all, one) = (self.name(), self.name());
        let bytes = format!("arraySum({one} -> toInt64(length({one})), {all})");
        let checked = unless_too_long(&bytes, &all, "[]");
        format!(
            "arrayMap({all} -> arrayStringConcat({checked}), [[{}]])[1]",
            texts.join(", ")
        )
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
