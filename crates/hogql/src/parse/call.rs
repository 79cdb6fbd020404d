//! Calls of functions, and the forms that the parser reads on its own.

use sqlparser::ast::{
    CeilFloorKind, DateTimeField, Expr as Ast, Function as AstFunction, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::error::{ParseError, Result, refuse};
use super::expr::Reader;
use super::forms::named_form;
use super::kinds::{self, number};
use super::refused_calls::{AGGREGATES, UNSTEADY, is_one_of, short, unknown, wrong_count};
use crate::expr::{Expr, Value};
use crate::function::{Function, Takes};
use crate::model::Type;

impl Reader<'_> {
    pub(super) fn called(&self, ast: &Ast, level: usize) -> Result<Expr> {
        let arguments = |asts: &[&Ast]| asts.iter().map(|ast| self.expr(ast, level)).collect::<Result<Vec<_>>>();
        match ast {
            Ast::Function(function) => self.function(function, level),
            Ast::Trim {
                expr,
                trim_where: None,
                trim_what: None,
                trim_characters: None,
            } => call(Function::Trim, arguments(&[expr])?),
            Ast::Substring {
                expr,
                substring_from: Some(from),
                substring_for,
                ..
            } => {
                let mut asts = vec![expr.as_ref(), from];
                asts.extend(substring_for.as_deref());
                call(Function::Substring, arguments(&asts)?)
            }
            Ast::Position { expr, r#in } => call(Function::Position, arguments(&[r#in, expr])?),
            Ast::Ceil { expr, field } if is_bare(field) => call(Function::Ceil, arguments(&[expr])?),
            Ast::Floor { expr, field } if is_bare(field) => call(Function::Floor, arguments(&[expr])?),
            other => Err(unsupported(other)),
        }
    }

    fn function(&self, function: &AstFunction, level: usize) -> Result<Expr> {
        let name = function.name.to_string();
        if function.over.is_some() {
            return Err(refuse(
                "Window functions are not supported. Each row is computed separately.",
            ));
        }
        let arguments = match &function.args {
            FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
                &list.args
            }
            FunctionArguments::Subquery(_) => return Err(no_subqueries()),
            _ => return Err(unknown(&name)),
        };
        let is_plain = function.parameters == FunctionArguments::None
            && function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none();
        if !is_plain || is_one_of(&name, AGGREGATES) || is_one_of(&name, UNSTEADY) {
            return Err(unknown(&name));
        }
        // A chain is as deep as it is long.
        let is_chain = is_one_of(&name, &["and", "or"]);
        let level = if is_chain { level + arguments.len() } else { level };
        let arguments = arguments
            .iter()
            .map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => self.expr(ast, level),
                _ => Err(refuse(format!("{} takes plain arguments.", short(&name)))),
            })
            .collect::<Result<Vec<_>>>()?;
        match Function::named(&name) {
            Some(function) => call(function, arguments),
            None => named_form(&name, arguments),
        }
    }
}

fn is_bare(field: &CeilFloorKind) -> bool {
    matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime))
}

/// A call, its arguments checked and fitted to what the function takes.
fn call(function: Function, arguments: Vec<Expr>) -> Result<Expr> {
    let definition = function.definition();
    let name = function.name();
    let most = if definition.is_variadic {
        usize::MAX
    } else {
        definition.takes.len()
    };
    if !(definition.at_least..=most).contains(&arguments.len()) {
        return Err(wrong_count(name, definition.at_least));
    }
    if let (Function::ToDateTime, [Expr::Value(Value::Text(text))]) = (function, arguments.as_slice()) {
        return kinds::time(text);
    }
    let takes = |index: usize| definition.takes[index.min(definition.takes.len() - 1)];
    let arguments = arguments
        .into_iter()
        .enumerate()
        .map(|(index, argument)| taken(argument, takes(index), name))
        .collect::<Result<Vec<_>>>()?;
    let arguments = if definition.takes.contains(&Takes::Same) {
        kinds::unified(arguments)?
    } else {
        arguments
    };
    Ok(Expr::Call(function, arguments))
}

fn taken(argument: Expr, takes: Takes, name: &str) -> Result<Expr> {
    let kind = argument.kind();
    match (takes, kind) {
        (_, None) => Err(refuse(format!("{name} of NULL is always NULL. Remove it."))),
        (Takes::Text | Takes::AsText, Some(Type::Text)) | (Takes::Time, Some(Type::Time)) | (Takes::Same, _) => {
            Ok(argument)
        }
        (Takes::OneOf(kinds), Some(kind)) if kinds.contains(&kind) => Ok(argument),
        (Takes::AsText, _) => Ok(Expr::Call(Function::ToString, vec![argument])),
        (Takes::Number, _) => number(argument, name),
        (Takes::Literal(least, most), _) => match argument {
            Expr::Value(Value::Int(number)) if (least..=most).contains(&number) => Ok(argument),
            _ => Err(refuse(format!(
                "{name} takes a literal integer here, at least {least}."
            ))),
        },
        (Takes::Time, Some(Type::Text)) => match &argument {
            Expr::Value(Value::Text(text)) => kinds::time(text),
            _ => Err(refuse(format!(
                "{name} takes a time. Wrap the string in toDateTime(…)."
            ))),
        },
        (Takes::Text, kind) => Err(refuse(format!(
            "{name} takes a string, not {}. Wrap it in toString(…).",
            kinds::named(kind)
        ))),
        (Takes::Time, kind) => Err(refuse(format!("{name} takes a time, not {}.", kinds::named(kind)))),
        (Takes::OneOf(_), kind) => Err(refuse(format!("{name} does not take {}.", kinds::named(kind)))),
    }
}

fn no_subqueries() -> ParseError {
    refuse("Subqueries are not supported.")
}

fn unsupported(ast: &Ast) -> ParseError {
    match ast {
        Ast::Subquery(_) | Ast::InSubquery { .. } | Ast::Exists { .. } => no_subqueries(),
        Ast::Cast { .. } | Ast::Convert { .. } => {
            refuse("Casts are not supported. Use toString(…), toInt(…), toFloat(…), toBool(…) or toDateTime(…).")
        }
        Ast::TypedString(_) => refuse("Write a time as toDateTime('2024-02-29 12:00:00')."),
        Ast::Interval(_) => refuse("Intervals are not supported. The export adds its interval automatically."),
        Ast::Array(_) | Ast::Tuple(_) | Ast::Map(_) | Ast::Struct { .. } => {
            refuse("Arrays and tuples are not supported.")
        }
        Ast::Lambda(_) => refuse("Lambda functions are not supported."),
        Ast::Like { .. } | Ast::ILike { .. } => {
            refuse("LIKE takes one pattern and no ESCAPE. The escape character is the backslash.")
        }
        Ast::Trim { .. } | Ast::Substring { .. } | Ast::Ceil { .. } | Ast::Floor { .. } => {
            refuse("trim, floor and ceil take one argument, substring two or three.")
        }
        Ast::IsTrue(_) | Ast::IsFalse(_) | Ast::IsNotTrue(_) | Ast::IsNotFalse(_) => {
            refuse("Use a comparison with = instead of IS TRUE or IS FALSE.")
        }
        _ => refuse("Unsupported HogQL expression."),
    }
}
