//! Choosing a password, and checking one.

use std::net::IpAddr;

use auth::password::{MAX_LENGTH, MIN_LENGTH, hash, verify};
use zxcvbn::{Score, zxcvbn};

use super::{NewUser, User};
use crate::Service;
use crate::error::{Error, Result};
use crate::hashing::QueueTicket;
use crate::text::Email;

/// What a password must not be made of, whoever it belongs to.
const PRODUCT: &str = "hedgerow";
/// How many characters the estimate looks at: what follows makes no password weaker, unless it repeats what was there.
const JUDGED: usize = 30;
/// And how many ways to read them as letters. The estimate tries them all, and whoever mixes more characters than that is not
/// spelling a word with them.
const SPELLINGS: usize = 32;
/// Characters that the estimate takes for letters, as in `p4ssw0rd`.
const LOOKALIKES: [&str; 12] = ["4@", "8", "({[<", "3", "69", "1!|", "1|7", "0", "$5", "+7", "%", "2"];
/// Shorter ones are part of many words.
const LONG_WORD: usize = 4;

impl Service {
    /// The hash of a password that somebody chooses, if it will do. `about` are words that others know of them; `known_as` is
    /// their account if they are signed in.
    ///
    /// It takes its time, so it is done outside of any transaction.
    pub(crate) async fn hash_password(
        &self,
        password: &str,
        about: &[String],
        from: Option<IpAddr>,
        known_as: Option<&Email>,
    ) -> Result<String> {
        expect_length(password)?;
        let judged = (password.to_owned(), about.to_vec());
        let place = self.core.password_estimates.enter(from, known_as)?;
        if !place.run(move || is_hard_to_guess(&judged.0, &judged.1)).await? {
            return Err(easy_to_guess());
        }
        let password = password.to_owned();
        let place = self.core.hashing.enter(from, known_as)?;
        Ok(place.run(move || hash(&password)).await??)
    }

    /// The hash of a new user's password, if they have one.
    pub(crate) async fn hash_of_new(&self, new: &NewUser, from: Option<IpAddr>) -> Result<Option<String>> {
        let Some(password) = &new.password else { return Ok(None) };
        let about = words(new.email.as_str(), &new.first_name, &new.last_name);
        self.hash_password(password, &about, from, None).await.map(Some)
    }

    /// How many passwords this process has hashed, to hold against what it should have.
    pub fn hashes_computed(&self) -> u64 {
        self.core.hashing.begun()
    }
}

/// Whether a password is the one that was stored.
pub(crate) async fn password_fits(place: QueueTicket, password: &str, stored: String) -> Result<bool> {
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
        let detail = format!("use at least {MIN_LENGTH} characters");
        return Err(Error::invalid("password", "password_too_short", detail));
    }
    if password.len() > MAX_LENGTH {
        let detail = format!("use at most {MAX_LENGTH} bytes");
        return Err(Error::invalid("password", "max_length", detail));
    }
    Ok(())
}

/// Whether it takes more than a million guesses by somebody who knows the usual passwords, and this person.
fn is_hard_to_guess(password: &str, about: &[String]) -> bool {
    let known: Vec<&str> = about.iter().map(String::as_str).chain([PRODUCT]).collect();
    zxcvbn(&judged(password, &known), &known).score() >= Score::Two
}

/// The part of a password that is judged, small enough to be judged quickly, and no harder to guess than the whole.
fn judged(password: &str, known: &[&str]) -> String {
    let whole: Vec<char> = password.chars().collect();
    if is_quickly_judged(&whole) {
        return password.to_owned();
    }
    // A word that was cut would not be known any more.
    let mut rest = password.to_lowercase();
    for word in known.iter().filter(|word| word.chars().count() >= LONG_WORD) {
        rest = rest.replace(word, "");
    }
    let rest: Vec<char> = rest.chars().collect();
    let fits = |length: &usize| is_quickly_judged(&rest[..*length]);
    let length = (0..=rest.len().min(JUDGED)).rev().find(fits).unwrap_or_default();
    unrepeated(&rest[..length]).iter().collect()
}

fn is_quickly_judged(text: &[char]) -> bool {
    text.len() <= JUDGED && spellings(text) <= SPELLINGS
}

/// About how many ways there are to read it.
fn spellings(text: &[char]) -> usize {
    let of_letter = |alike: &&str| alike.chars().filter(|c| text.contains(c)).count().max(1);
    LOOKALIKES.iter().map(of_letter).product()
}

/// What the text begins with and then repeats, or all of it.
fn unrepeated(text: &[char]) -> &[char] {
    let repeats = |length: &usize| text[*length..] == text[..text.len() - length];
    let length = (1..=text.len() / 2).find(repeats);
    &text[..length.unwrap_or(text.len())]
}

fn easy_to_guess() -> Error {
    let detail = "this password is easy to guess: use a passphrase or a password manager";
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

    /// The estimate looks at a part of them.
    #[test]
    fn long_passwords_are_judged_as_well() {
        let about = words(
            "maximilian.mustermann@some-long-company.example",
            "Maximilian",
            "Mustermann",
        );
        for weak in [
            "password".repeat(5) + "1",
            "password".repeat(32),
            "1234567890".repeat(4),
            "abcdefghijklmnopqrstuvwxyz".repeat(3),
            "a".repeat(200),
            "a1".repeat(100),
            "maximilian.mustermann@some-long-company.example".to_owned(),
            "Maximilian.Mustermann@some-long-company.example1".to_owned(),
            "hedgerow".repeat(6),
        ] {
            assert!(!is_hard_to_guess(&weak, &about), "{weak}");
        }
        for good in [
            "correct horse battery staple and some more words",
            "x7$kQ!m2(pL@9vR{3zW<6tY|0sN+5bD%1fG",
            "maximilian likes correct horse batteries more than staples",
            &"4@8({[<369&#!1/|0$5+7%2".repeat(4),
        ] {
            assert!(is_hard_to_guess(good, &about), "{good}");
        }
    }

    #[test]
    fn a_repetition_is_what_it_repeats() {
        let of = |text: &str| unrepeated(&text.chars().collect::<Vec<_>>()).iter().collect::<String>();
        assert_eq!(of("abcabcab"), "abc");
        assert_eq!(of("aaaa"), "a");
        assert_eq!(of("abcdab"), "abcdab");
        assert_eq!(of(""), "");
    }

    /// Every way to read the characters as letters costs as much as judging the password once.
    #[test]
    fn what_is_judged_is_short_and_has_few_spellings() {
        let many = "4@8({[<369&#!1/|0$5+7%2".repeat(5);
        for text in [many.as_str(), &many[..23], &"x".repeat(256), "1!|7 4@$5 69({[<"] {
            let judged: Vec<char> = judged(text, &[]).chars().collect();
            assert!(judged.len() <= 30 && spellings(&judged) <= 32, "{judged:?}");
        }
        assert_eq!(judged("P4ssw0rd!", &[]), "P4ssw0rd!");
    }

    #[test]
    fn a_long_password_is_judged_quickly() {
        is_hard_to_guess("what loads the dictionaries", &[]);
        for text in [
            "a1".repeat(128),
            "password".repeat(32),
            "(((((".repeat(51),
            "1990".repeat(64),
            "4@8({[<369&#!1/|0$5+7%2".repeat(5),
            "({[<4@$5+7passwordsunshinelove".to_owned(),
        ] {
            let started = std::time::Instant::now();
            is_hard_to_guess(&text, &[]);
            let took = started.elapsed();
            assert!(took < std::time::Duration::from_secs(1), "{text}: {took:?}");
        }
    }
}
