//! How much a query may ask of whoever reads it.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::error::{ParseError, Result, refuse};
use crate::expr::Field;
use crate::function::Function;
use crate::text::{Piece, pieces};

const BYTES: usize = 20_000;
const FIELDS: usize = 300;
const BRACKETS: usize = 50;
/// The parser reads what is in some brackets twice, and so what is in such brackets in there four times: in those of `position`, and where
/// it takes a list for a query first.
const READ_TWICE: usize = 5;
/// With these a query begins.
const QUERY_STARTS: [Keyword; 10] = [
    Keyword::SELECT,
    Keyword::VALUES,
    Keyword::VALUE,
    Keyword::WITH,
    Keyword::TABLE,
    Keyword::FROM,
    Keyword::INSERT,
    Keyword::UPDATE,
    Keyword::DELETE,
    Keyword::MERGE,
];
const ALIAS_BYTES: usize = 120;
const PATTERN_CHARS: usize = 500;
const WILDCARDS: usize = 50;
/// Calls whose result may be longer than what they are given; each may be as long as [`crate::scalars::MAX_TEXT`].
const GROWING_CALLS: usize = 100;
/// Every operator may put one expression into another, and the parser's tree is taken down by recursion.
const OPERATORS: usize = 2_000;
/// Of the parser's functions; brackets and signs before a value take some each.
pub(super) const RECURSION: usize = 200;
/// Of a checked expression: a chain of operators is as deep as it is long. SQLite takes 1000 levels, and some of ours
/// are several of its own.
pub(super) const LEVELS: usize = 200;

pub(super) fn check_size(text: &str) -> Result<()> {
    if text.len() > BYTES {
        return Err(refuse(format!("The query can have at most {BYTES} bytes.")));
    }
    Ok(())
}

pub(super) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    // For each open bracket, whether what is in there is read twice.
    let mut open = Vec::new();
    let (mut operators, mut growing) = (0, 0);
    let mut before = &Token::EOF;
    for TokenWithSpan { token, .. } in tokens {
        if *before == Token::LParen
            && is_one_of(token, &QUERY_STARTS)
            && let Some(bracket) = open.last_mut()
        {
            *bracket = true;
        }
        match token {
            Token::LParen | Token::LBracket => open.push(is_one_of(before, &[Keyword::POSITION])),
            Token::RParen | Token::RBracket => drop(open.pop()),
            Token::Placeholder(_) | Token::LBrace => return Err(no_placeholders()),
            token => {
                operators += usize::from(is_operator(token));
                growing += usize::from(is_growing(token));
            }
        }
        if open.len() > BRACKETS || open.iter().filter(|is_read_twice| **is_read_twice).count() > READ_TWICE {
            return Err(too_deep());
        }
        if !matches!(token, Token::Whitespace(_)) {
            before = token;
        }
    }
    if operators > OPERATORS {
        return Err(refuse(
            "The query has too many operators. Use IN with a list of values.",
        ));
    }
    if growing > GROWING_CALLS {
        return Err(refuse(format!(
            "The query calls concat and replaceAll more than {GROWING_CALLS} times. concat takes any number of \
             strings."
        )));
    }
    Ok(())
}

fn is_one_of(token: &Token, keywords: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if keywords.contains(&word.keyword))
}

fn is_growing(token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    matches!(
        Function::named(&word.value),
        Some(Function::Concat | Function::ReplaceAll)
    )
}

/// Patterns are matched against texts of any length, row by row.
pub(super) fn check_pattern(pattern: &str) -> Result<()> {
    if pattern.chars().count() > PATTERN_CHARS {
        return Err(refuse(format!(
            "A LIKE pattern can have at most {PATTERN_CHARS} characters."
        )));
    }
    let wildcards = pieces(pattern)
        .iter()
        .filter(|piece| !matches!(piece, Piece::Char(_)))
        .count();
    if wildcards > WILDCARDS {
        return Err(refuse(format!(
            "A LIKE pattern can have at most {WILDCARDS} wildcards (% and _). Use several patterns."
        )));
    }
    Ok(())
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::Period
        | Token::Whitespace(_)
        | Token::EOF => false,
        _ => true,
    }
}

pub(super) fn check_level(level: usize) -> Result<()> {
    if level > LEVELS { Err(too_deep()) } else { Ok(()) }
}

pub(super) fn check_fields(fields: &[Field]) -> Result<()> {
    if fields.len() > FIELDS {
        return Err(refuse(format!("The query can select at most {FIELDS} columns.")));
    }
    let mut aliases: Vec<_> = fields.iter().map(|field| field.alias.as_str()).collect();
    aliases.sort_unstable();
    match aliases.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(refuse(format!(
            "Two columns are named `{}`. Give one of them an alias.",
            pair[0]
        ))),
        None => fields.iter().try_for_each(|field| check_alias(&field.alias)),
    }
}

fn check_alias(alias: &str) -> Result<()> {
    if alias.is_empty() {
        return Err(refuse("A column alias must not be empty."));
    }
    if alias.len() > ALIAS_BYTES {
        let shown = &alias[..alias.floor_char_boundary(40)];
        return Err(refuse(format!(
            "The column name `{shown}…` is longer than {ALIAS_BYTES} bytes. Give it a shorter alias with AS."
        )));
    }
    if alias.chars().any(char::is_control) {
        return Err(refuse("A column alias must not contain control characters."));
    }
    if alias.starts_with(crate::render::RESERVED) {
        return Err(refuse(format!(
            "An alias must not start with {}.",
            crate::render::RESERVED
        )));
    }
    Ok(())
}

pub(super) fn too_deep() -> ParseError {
    refuse(format!(
        "The query is nested too deeply. Use at most {BRACKETS} brackets and {LEVELS} operators in a row, or IN with \
         a list of values."
    ))
}

pub(super) fn no_placeholders() -> ParseError {
    refuse(
        "Placeholders are not supported. Write the value itself, and omit the interval, which the export adds \
         automatically.",
    )
}
