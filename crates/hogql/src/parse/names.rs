//! Columns and paths into their JSON.

use sqlparser::ast::{AccessExpr, Expr as Ast, Ident, Subscript, Value as Literal};

use super::error::{ParseError, Result, refuse};
use super::expr::Reader;
use crate::expr::Expr;
use crate::model::{Column, Type};

/// How deep a path may go.
const KEYS: usize = 20;

impl Reader<'_> {
    /// `event`, `properties.a.b`, `events.properties.a`, `person.properties.a`.
    pub(super) fn path(&self, parts: &[&str]) -> Result<Expr> {
        let rest = match parts {
            [table, _, ..] if self.is_table(table) => &parts[1..],
            all => all,
        };
        match rest {
            ["person", "properties", keys @ ..] => self.below(Column::PersonProperties, keys),
            ["person", "id"] => self.below(Column::PersonId, &[]),
            [name, keys @ ..] => {
                let column = self.model.columns().find(|column| column.name() == *name);
                self.below(column.ok_or_else(|| self.unknown(name))?, keys)
            }
            [] => Err(refuse("A name must not be empty.")),
        }
    }

    fn is_table(&self, name: &str) -> bool {
        name == self.model.name() || self.table.is_some_and(|table| table.value == name)
    }

    fn unknown(&self, name: &str) -> ParseError {
        let names: Vec<_> = self.model.columns().map(Column::name).collect();
        let model = self.model.name();
        refuse(format!(
            "Unknown column `{}` in {model}. Available columns: {} (conditions use columns, not aliases).",
            name.chars().take(60).collect::<String>(),
            names.join(", ")
        ))
    }

    fn below(&self, column: Column, keys: &[&str]) -> Result<Expr> {
        if !column.is_of(self.model) {
            return Err(self.unknown(column.name()));
        }
        if keys.is_empty() {
            return Ok(Expr::Column(column));
        }
        if column.kind() != Type::Json {
            return Err(refuse(format!("{} has no properties.", column.name())));
        }
        let path = keys.iter().map(|key| (*key).to_owned()).collect();
        check_path(path).map(|path| Expr::Property { column, path })
    }

    /// `properties['x y']`, `properties.a['b'].c`
    pub(super) fn access(&self, root: &Ast, chain: &[AccessExpr]) -> Result<Expr> {
        let mut parts = match root {
            Ast::Identifier(ident) => vec![ident.value.as_str()],
            Ast::CompoundIdentifier(idents) => idents.iter().map(|ident| ident.value.as_str()).collect(),
            _ => return Err(refuse("Only properties have nested values.")),
        };
        for step in chain {
            parts.push(key_of(step)?);
        }
        self.path(&parts)
    }
}

/// A key in SQLite's path is text without NUL.
pub(super) fn check_path(path: Vec<String>) -> Result<Vec<String>> {
    if path.len() > KEYS {
        return Err(refuse(format!("A property path can have at most {KEYS} keys.")));
    }
    if path.iter().any(|key| key.contains('\0')) {
        return Err(refuse("A property name must not contain NUL characters."));
    }
    Ok(path)
}

fn key_of(step: &AccessExpr) -> Result<&str> {
    match step {
        AccessExpr::Dot(Ast::Identifier(Ident { value, .. })) => Ok(value),
        AccessExpr::Subscript(Subscript::Index {
            index: Ast::Value(literal),
        }) => match &literal.value {
            Literal::SingleQuotedString(key) => Ok(key),
            _ => Err(refuse(
                "Use a quoted name in brackets after a property. Array items are not supported.",
            )),
        },
        _ => Err(refuse("Use a quoted name in brackets after a property.")),
    }
}
