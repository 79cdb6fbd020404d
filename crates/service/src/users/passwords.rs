//! Choosing a password, and checking one.

use std::net::IpAddr;

use auth::password::{MAX_LENGTH, MIN_LENGTH, hash, verify};
use zxcvbn::{Score, zxcvbn};

use super::{NewUser, User};
use crate::Service;
use crate::error::{Error, Result};
use crate::hashing::Place;

/// What a password must not be made of, whoever it belongs to.
const PRODUCT: &str = "hedgerow";
/// What the estimate looks at; the rest makes it no weaker.
const JUDGED: usize = 100;

impl Service {
    /// The hash of a password that somebody chooses, if it will do. `about` are words that others know of them.
    ///
    /// It takes its time, so it is done outside of any transaction.
    pub(crate) async fn hash_password(&self, password: &str, about: &[String], from: Option<IpAddr>) -> Result<String> {
        expect_length(password)?;
        let (password, about) = (password.to_owned(), about.to_vec());
        let place = self.core.hashing.enter(from, false)?;
        let hashed = place.run(move || is_hard_to_guess(&password, &about).then(|| hash(&password)));
        match hashed.await {
            Some(hash) => Ok(hash?),
            None => Err(easy_to_guess()),
        }
    }

    /// The hash of a new user's password, if they have one.
    pub(crate) async fn hash_of_new(&self, new: &NewUser, from: Option<IpAddr>) -> Result<Option<String>> {
        let Some(password) = &new.password else { return Ok(None) };
        let about = words(new.email.as_str(), &new.first_name, &new.last_name);
        self.hash_password(password, &about, from).await.map(Some)
    }

    /// How many passwords this process has hashed, to hold against what it should have.
    pub fn hashes_computed(&self) -> u64 {
        self.core.hashing.begun()
    }
}

/// Whether a password is the one that was stored.
pub(crate) async fn password_fits(place: Place, password: &str, stored: String) -> bool {
    let password = password.to_owned();
    place.run(move || verify(&password, &stored)).await
}

impl User {
    /// What others know of somebody, and would try first.
    pub(crate) fn about(&self) -> Vec<String> {
        words(&self.email, &self.first_name, &self.last_name)
    }
}

fn words(email: &str, first_name: &str, last_name: &str) -> Vec<String> {
    let (local, domain) = email.split_once('@').unwrap_or((email, ""));
    let all = [email, local, domain, first_name, last_name];
    all.into_iter()
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn expect_length(password: &str) -> Result<()> {
    if password.chars().count() < MIN_LENGTH {
        let detail = format!("a password has at least {MIN_LENGTH} characters");
        return Err(Error::invalid("password", "password_too_short", detail));
    }
    if password.len() > MAX_LENGTH {
        let detail = format!("a password has at most {MAX_LENGTH} bytes");
        return Err(Error::invalid("password", "max_length", detail));
    }
    Ok(())
}

/// Whether it takes more than a million guesses by somebody who knows the usual passwords, and this person.
fn is_hard_to_guess(password: &str, about: &[String]) -> bool {
    let judged: String = password.chars().take(JUDGED).collect();
    let known: Vec<&str> = about.iter().map(String::as_str).chain([PRODUCT]).collect();
    zxcvbn(&judged, &known).score() >= Score::Two
}

fn easy_to_guess() -> Error {
    let detail = "this password is easy to guess: use a passphrase of a few random words, or a password manager";
    Error::invalid("password", "password_too_common", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everybody_tries_first_is_refused() {
        let about = words("olga.owner@example.com", "Olga", "Owner");
        for weak in [
            "password",
            "Password1",
            "12345678",
            "qwertyuiop",
            "aaaaaaaaaaaaaaaa",
            "letmein1",
            "P@ssw0rd",
            "abcdefgh",
            "olga.owner@example.com",
            "olgaowner",
            "Olga2026",
            "example.com",
            "hedgerow",
            "Hedgerow1",
            "hedgerowhedgerow",
            "iloveyou",
            "11111111111111111111",
            "19901231",
        ] {
            assert!(!is_hard_to_guess(weak, &about), "{weak}");
        }
        for good in [
            "correct horse battery",
            "tHw9!kqz",
            "blue lamp quietly sings",
            "vT3k9wq2Zp",
            "Zwölf Boxkämpfer jagen Viktor",
        ] {
            assert!(is_hard_to_guess(good, &about), "{good}");
        }
    }

    #[test]
    fn a_long_password_is_judged_quickly() {
        let started = std::time::Instant::now();
        for text in [
            "a1".repeat(128),
            "password".repeat(32),
            "(((((".repeat(51),
            "1990".repeat(64),
        ] {
            is_hard_to_guess(&text, &[]);
        }
        assert!(
            started.elapsed() < std::time::Duration::from_secs(10),
            "{:?}",
            started.elapsed()
        );
    }
}
