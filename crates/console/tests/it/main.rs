//! The pages, as a browser sees them.

mod account;
mod activity;
mod app_code;
mod app_hosts;
mod app_pins;
mod apps;
mod as_curl;
mod conflicts;
mod domains;
mod every_page;
mod export_backfills;
mod export_runs;
mod exports;
mod invites;
mod keys;
mod kit;
mod login;
mod members;
mod notices;
mod organization;
mod organizations;
mod overview;
mod signup;
mod single_sign_on;
mod slow_forms;
mod teams;
