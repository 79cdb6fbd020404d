//! Queries as users write them, read, printed, and run.

mod cases;
mod expressions;
mod random;
mod reading;
mod refusals;
mod sqlite;
