//! Addresses as people paste them: from a mail's header, a spreadsheet, a chat.

/// Somebody in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pasted {
    pub(super) email: String,
    /// What the text calls them, if it does.
    pub(super) first_name: Option<String>,
}

/// As long as a first name may be.
const MAX_NAME: usize = 30;

/// Everything that could be meant as an address, in order. What is none is for the service to say.
pub(super) fn read(text: &str) -> Vec<Pasted> {
    text.split([',', ';', '\n', '\r']).flat_map(entries).collect()
}

/// `Ann Lee <ann@example.com>` is one; bare words are addresses.
fn entries(part: &str) -> Vec<Pasted> {
    if let Some((name, rest)) = part.split_once('<') {
        let email = rest.split('>').next().unwrap_or_default();
        return vec![Pasted {
            email: email.trim().to_owned(),
            first_name: first_name(name),
        }];
    }
    let bare = part.split_whitespace().map(|email| Pasted {
        email: email.to_owned(),
        first_name: None,
    });
    bare.collect()
}

fn first_name(name: &str) -> Option<String> {
    let name = name.trim().trim_matches(['"', '\'']);
    let first = name.split_whitespace().next()?;
    let clean: String = first.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    (!clean.is_empty() && !clean.contains('@')).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emails(text: &str) -> Vec<String> {
        read(text).into_iter().map(|pasted| pasted.email).collect()
    }

    #[test]
    fn whatever_separates_them_addresses_are_found() {
        let expected = ["a@x.org", "b@x.org", "c@x.org"];
        for text in [
            "a@x.org b@x.org c@x.org",
            "a@x.org,b@x.org; c@x.org",
            "a@x.org\r\n\r\n b@x.org\t\nc@x.org,",
        ] {
            assert_eq!(emails(text), expected, "{text:?}");
        }
        assert!(emails(" ,;\n").is_empty());
    }

    #[test]
    fn names_come_along() {
        let found = read("\"Ann Lee\" <ann@x.org>, Bo <bo@x.org>, <c@x.org>, d@x.org <d@x.org>");
        let names: Vec<_> = found.iter().map(|pasted| pasted.first_name.as_deref()).collect();
        assert_eq!(names, [Some("Ann"), Some("Bo"), None, None]);
        assert_eq!(found[0].email, "ann@x.org");
    }

    #[test]
    fn what_is_no_address_is_kept_to_be_told_about() {
        assert_eq!(emails("nobody, <broken"), ["nobody", "broken"]);
    }
}
