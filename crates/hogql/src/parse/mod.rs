//! From text to a checked query.

mod bounds;
mod call;
mod dialect;
mod error;
mod expr;
mod forms;
mod kinds;
mod names;
mod refused_calls;
mod select;

pub use error::ParseError;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::expr::Query;
use dialect::HogQl;
use error::{Result, refuse};

/// Reads one SELECT over `events` or `persons`.
pub fn parse(text: &str) -> Result<Query> {
    let tokens = tokens(text)?;
    let mut parser = Parser::new(&HogQl)
        .with_recursion_limit(bounds::RECURSION)
        .with_tokens_with_locations(tokens);
    let statement = read(&mut parser).map_err(unreadable)?;
    let query = select::query(&statement)?;
    // What is stored is the normalized text, which has to be read again.
    self::tokens(&query.to_string())?;
    Ok(query)
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    bounds::check_size(text)?;
    let tokens = Tokenizer::new(&HogQl, text)
        .tokenize_with_location()
        .map_err(|error| refuse(format!("Failed to parse query: {error}")))?;
    bounds::check_tokens(&tokens)?;
    Ok(tokens)
}

fn read(parser: &mut Parser<'_>) -> Result<ast::Query, ParserError> {
    let query = *parser.parse_query()?;
    while parser.consume_token(&Token::SemiColon) {}
    match &parser.peek_token_ref().token {
        Token::EOF => Ok(query),
        more => Err(ParserError::ParserError(format!(
            "Expected one SELECT, but found {more} after it."
        ))),
    }
}

fn unreadable(error: ParserError) -> ParseError {
    match error {
        ParserError::TokenizerError(detail) | ParserError::ParserError(detail) => {
            refuse(format!("Failed to parse query: {detail}"))
        }
        ParserError::RecursionLimitExceeded => bounds::too_deep(),
    }
}
