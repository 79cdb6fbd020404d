//! The pages, as a browser sees them.

mod account;
mod every_page;
mod kit;
mod login;
mod signup;
mod single_sign_on;
