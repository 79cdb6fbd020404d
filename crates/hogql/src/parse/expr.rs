//! Expressions, one by one.

use sqlparser::ast::{BinaryOperator, CaseWhen, Expr as Ast, Ident, UnaryOperator, Value as Literal};

use super::bounds;
use super::error::{Result, refuse};
use super::kinds::{self, By, comparison, fitted, number};
use crate::expr::{Comparison, Expr, Operation, Value};
use crate::model::{Model, Type};

/// AND or OR.
pub(super) type Connect = fn(Box<Expr>, Box<Expr>) -> Expr;

/// Reads expressions over a model.
pub(super) struct Reader<'a> {
    pub(super) model: Model,
    pub(super) table: Option<&'a Ident>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(model: Model, table: Option<&'a Ident>) -> Self {
        Self { model, table }
    }

    pub(super) fn condition(&self, ast: &Ast, level: usize) -> Result<Expr> {
        let expr = self.expr(ast, level)?;
        match expr.kind() {
            Some(Type::Bool) => Ok(expr),
            kind => Err(refuse(format!(
                "A condition must be true or false, not {}. Compare it with a value.",
                kinds::named(kind)
            ))),
        }
    }

    pub(super) fn expr(&self, ast: &Ast, level: usize) -> Result<Expr> {
        bounds::check_level(level)?;
        let level = level + 1;
        match ast {
            Ast::Identifier(ident) => self.path(&[&ident.value]),
            Ast::CompoundIdentifier(idents) => {
                let parts: Vec<_> = idents.iter().map(|ident| ident.value.as_str()).collect();
                self.path(&parts)
            }
            Ast::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            Ast::Nested(inner) => self.expr(inner, level),
            Ast::Value(literal) => value(&literal.value),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right, level),
            Ast::UnaryOp { op, expr } => self.unary(*op, expr, level),
            Ast::IsNull(expr) => self.is_null(expr, false, level),
            Ast::IsNotNull(expr) => self.is_null(expr, true, level),
            Ast::InList { expr, list, negated } => self.in_list(expr, list, *negated, level),
            Ast::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, low, high, *negated, level),
            Ast::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => like(self.expr(expr, level)?, &self.expr(pattern, level)?, false, *negated),
            Ast::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => like(self.expr(expr, level)?, &self.expr(pattern, level)?, true, *negated),
            Ast::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(operand.as_deref(), conditions, else_result.as_deref(), level),
            other => self.called(other, level),
        }
    }

    fn is_null(&self, ast: &Ast, is_negated: bool, level: usize) -> Result<Expr> {
        let expr = self.expr(ast, level)?;
        if expr.kind().is_none() {
            return Err(refuse("NULL is always NULL. Put a column before IS NULL."));
        }
        let expr = Box::new(expr);
        Ok(Expr::IsNull { expr, is_negated })
    }

    fn binary(&self, left: &Ast, op: &BinaryOperator, right: &Ast, level: usize) -> Result<Expr> {
        let connect: Option<Connect> = match op {
            BinaryOperator::And => Some(Expr::And),
            BinaryOperator::Or => Some(Expr::Or),
            _ => None,
        };
        if let Some(connect) = connect {
            let left = self.condition(left, level)?;
            return Ok(connect(Box::new(left), Box::new(self.condition(right, level)?)));
        }
        let (left, right) = (self.expr(left, level)?, self.expr(right, level)?);
        match op {
            BinaryOperator::Eq => comparison(Comparison::Equal, left, right),
            BinaryOperator::NotEq => comparison(Comparison::NotEqual, left, right),
            BinaryOperator::Lt => comparison(Comparison::Less, left, right),
            BinaryOperator::LtEq => comparison(Comparison::LessOrEqual, left, right),
            BinaryOperator::Gt => comparison(Comparison::Greater, left, right),
            BinaryOperator::GtEq => comparison(Comparison::GreaterOrEqual, left, right),
            BinaryOperator::Plus => computation(Operation::Add, left, right),
            BinaryOperator::Minus => computation(Operation::Subtract, left, right),
            BinaryOperator::Multiply => computation(Operation::Multiply, left, right),
            BinaryOperator::Divide => computation(Operation::Divide, left, right),
            BinaryOperator::Modulo => computation(Operation::Modulo, left, right),
            BinaryOperator::StringConcat => Err(refuse("|| is not supported. Use concat(…).")),
            other => Err(refuse(format!("The operator {other} is not supported."))),
        }
    }

    fn unary(&self, op: UnaryOperator, ast: &Ast, level: usize) -> Result<Expr> {
        match op {
            UnaryOperator::Not => Ok(not(self.condition(ast, level)?)),
            UnaryOperator::Plus => number(self.expr(ast, level)?, "+"),
            UnaryOperator::Minus => match ast {
                // The smallest whole number has no positive twin, so the sign is read with the digits.
                Ast::Value(literal) if matches!(literal.value, Literal::Number(..)) => match &literal.value {
                    Literal::Number(digits, _) => number_value(&format!("-{digits}")),
                    other => value(other),
                },
                _ => negated(self.expr(ast, level)?),
            },
            other => Err(refuse(format!("The operator {other} is not supported."))),
        }
    }

    fn in_list(&self, ast: &Ast, list: &[Ast], is_negated: bool, level: usize) -> Result<Expr> {
        let expr = self.expr(ast, level)?;
        let items = list.iter().map(|item| self.expr(item, level)).collect::<Result<_>>()?;
        in_values(expr, items, is_negated)
    }

    fn between(&self, ast: &Ast, low: &Ast, high: &Ast, is_negated: bool, level: usize) -> Result<Expr> {
        let expr = self.expr(ast, level)?;
        let kind = expr
            .kind()
            .ok_or_else(|| refuse("NULL cannot be compared with BETWEEN."))?;
        Ok(Expr::Between {
            expr: Box::new(expr),
            low: Box::new(fitted(self.expr(low, level)?, kind, By::Order)?),
            high: Box::new(fitted(self.expr(high, level)?, kind, By::Order)?),
            is_negated,
        })
    }

    fn case(&self, operand: Option<&Ast>, whens: &[CaseWhen], otherwise: Option<&Ast>, level: usize) -> Result<Expr> {
        let operand = operand.map(|operand| self.expr(operand, level)).transpose()?;
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for when in whens {
            conditions.push(match &operand {
                None => self.condition(&when.condition, level)?,
                Some(operand) => {
                    let kind = operand
                        .kind()
                        .ok_or_else(|| refuse("Nothing equals NULL. Remove the CASE."))?;
                    fitted(self.expr(&when.condition, level)?, kind, By::Equality)?
                }
            });
            results.push(self.expr(&when.result, level)?);
        }
        let otherwise = otherwise.map(|otherwise| self.expr(otherwise, level)).transpose()?;
        case(operand, conditions, results, otherwise)
    }
}

/// Puts a CASE together, its results of one kind.
pub(super) fn case(
    operand: Option<Expr>,
    conditions: Vec<Expr>,
    mut results: Vec<Expr>,
    otherwise: Option<Expr>,
) -> Result<Expr> {
    let has_otherwise = otherwise.is_some();
    results.extend(otherwise);
    let mut results = kinds::unified(results)?;
    let otherwise = if has_otherwise {
        results.pop().map(Box::new)
    } else {
        None
    };
    Ok(Expr::Case {
        operand: operand.map(Box::new),
        branches: conditions.into_iter().zip(results).collect(),
        otherwise,
    })
}

fn in_values(expr: Expr, items: Vec<Expr>, is_negated: bool) -> Result<Expr> {
    let kind = expr
        .kind()
        .ok_or_else(|| refuse("NULL cannot be compared with IN. Use IS NULL."))?;
    let fit = |item| match item {
        Expr::Value(Value::Null) => Err(refuse("NULL in a list matches nothing. Use IS NULL.")),
        Expr::Value(_) => fitted(item, kind, By::Equality),
        _ => Err(refuse("IN takes a list of values. To compare with a column, use =.")),
    };
    Ok(Expr::In {
        list: items.into_iter().map(fit).collect::<Result<_>>()?,
        expr: Box::new(expr),
        is_negated,
    })
}

pub(super) fn like(expr: Expr, pattern: &Expr, ignores_case: bool, is_negated: bool) -> Result<Expr> {
    let Expr::Value(Value::Text(pattern)) = pattern else {
        return Err(refuse("LIKE takes a quoted pattern."));
    };
    if expr.kind() != Some(Type::Text) {
        let kind = kinds::named(expr.kind());
        return Err(refuse(format!(
            "LIKE compares strings, not {kind}. Wrap it in toString(…)."
        )));
    }
    bounds::check_pattern(pattern)?;
    Ok(Expr::Like {
        expr: Box::new(expr),
        pattern: pattern.clone(),
        ignores_case,
        is_negated,
    })
}

pub(super) fn computation(operation: Operation, left: Expr, right: Expr) -> Result<Expr> {
    let symbol = operation.symbol();
    let (left, right) = (number(left, symbol)?, number(right, symbol)?);
    let is_whole = |side: &Expr| side.kind() == Some(Type::Int);
    if operation == Operation::Modulo && !(is_whole(&left) && is_whole(&right)) {
        return Err(refuse("% takes integers. Wrap both sides in toInt(…)."));
    }
    Ok(Expr::Compute(operation, Box::new(left), Box::new(right)))
}

pub(super) fn negated(expr: Expr) -> Result<Expr> {
    match number(expr, "-")? {
        Expr::Value(Value::Int(number)) => number
            .checked_neg()
            .map(|number| Expr::Value(Value::Int(number)))
            .ok_or_else(|| refuse("The number is too large.")),
        Expr::Value(Value::Float(number)) => Ok(Expr::Value(Value::Float(-number))),
        Expr::Negate(twice) => Ok(*twice),
        other => Ok(Expr::Negate(Box::new(other))),
    }
}

pub(super) fn not(condition: Expr) -> Expr {
    match condition {
        Expr::Not(twice) => *twice,
        other => Expr::Not(Box::new(other)),
    }
}

fn value(literal: &Literal) -> Result<Expr> {
    let value = match literal {
        Literal::Number(digits, _) => return number_value(digits),
        Literal::SingleQuotedString(text) => Value::Text(text.clone()),
        Literal::Boolean(is_true) => Value::Bool(*is_true),
        Literal::Null => Value::Null,
        Literal::Placeholder(_) => return Err(bounds::no_placeholders()),
        _ => return Err(refuse("Write strings in single quotes, without a prefix.")),
    };
    Ok(Expr::Value(value))
}

fn number_value(digits: &str) -> Result<Expr> {
    if let Ok(number) = digits.parse() {
        return Ok(Expr::Value(Value::Int(number)));
    }
    match digits.parse() {
        Ok(number) if f64::is_finite(number) && digits.contains(['.', 'e', 'E']) => {
            Ok(Expr::Value(Value::Float(number)))
        }
        _ => Err(refuse("A number is too large.")),
    }
}
