//! What a key is for: one of the usual purposes, or kind by kind.

use service::{Object, Scope};

/// What keys are mostly made for, what that means, and what it takes.
const PURPOSES: [(&str, &str, &str, &[Scope]); 5] = [
    (
        "read",
        "Read-only",
        "Read everything you can see, change nothing.",
        &[
            Scope::Read(Object::Organization),
            Scope::Read(Object::OrganizationMember),
            Scope::Read(Object::BatchExport),
            Scope::Read(Object::Plugin),
        ],
    ),
    (
        "exports",
        "Manage batch exports",
        "Create and edit exports, start backfills, retry runs.",
        &[Scope::Write(Object::BatchExport)],
    ),
    (
        "members",
        "Manage members and invites",
        "Invite and remove people, change roles.",
        &[Scope::Write(Object::OrganizationMember)],
    ),
    (
        "apps",
        "Manage apps",
        "Install, configure and update apps, read their logs.",
        &[Scope::Write(Object::Plugin)],
    ),
    (
        "everything",
        "Full access",
        "Everything you can do, now and later, in every organization it can access.",
        &[Scope::Everything],
    ),
];

/// Chosen until another is: it can do no harm.
const FIRST: &str = "read";
/// Kind by kind, for those who know what they need.
const OWN: &str = "own";

/// The kinds of things that scopes speak of, in the words of people.
const SUBJECTS: [(Object, &str, &str); 4] = [
    (Object::Organization, "organization", "Organizations, teams and domains"),
    (Object::OrganizationMember, "organization_member", "Members and invites"),
    (Object::BatchExport, "batch_export", "Batch exports"),
    (Object::Plugin, "plugin", "Apps"),
];

/// A purpose to choose.
pub(super) struct Purpose {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    pub(super) is_chosen: bool,
}

/// One kind of thing, and how much of it is chosen.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) chosen: String,
}

/// `purpose` is what was sent; a form that names none speaks of kinds alone.
pub(super) fn scopes<'a>(purpose: &str, chosen: impl Fn(&str) -> &'a str) -> Vec<Scope> {
    if let Some((.., scopes)) = PURPOSES.iter().find(|(name, ..)| *name == purpose) {
        return scopes.to_vec();
    }
    let scopes = SUBJECTS.iter().filter_map(|(object, name, _)| match chosen(name) {
        "read" => Some(Scope::Read(*object)),
        "write" => Some(Scope::Write(*object)),
        _ => None,
    });
    scopes.collect()
}

/// All there are to choose from. Before anything is sent, the first is chosen.
pub(super) fn purposes(sent: Option<&str>) -> Vec<Purpose> {
    let chosen = sent.unwrap_or(FIRST);
    let usual = PURPOSES.map(|(name, title, hint, _)| (name, title, hint));
    let own = (OWN, "Custom", "Choose permissions for each resource.");
    let is_usual = usual.iter().any(|(name, ..)| *name == chosen);
    let all = usual.into_iter().chain([own]);
    all.map(|(name, title, hint)| Purpose {
        name,
        title,
        hint,
        is_chosen: name == chosen || (name == OWN && !is_usual),
    })
    .collect()
}

pub(super) fn subjects<'a>(chosen: impl Fn(&str) -> &'a str) -> Vec<Subject> {
    let subject = |(_, name, title): (Object, &'static str, &'static str)| Subject {
        name,
        title,
        chosen: chosen(name).to_owned(),
    };
    SUBJECTS.map(subject).into()
}

/// What a scope lets a key do, for those who do not know its name.
pub(super) fn in_words(scope: Scope) -> String {
    let title = |wanted: Object| {
        let found = SUBJECTS.iter().find(|(object, ..)| *object == wanted);
        found.map_or("", |(.., title)| title)
    };
    match scope {
        Scope::Everything => "do everything you can do".to_owned(),
        Scope::Read(object) => format!("read {}", title(object).to_lowercase()),
        Scope::Write(object) => format!("read and change {}", title(object).to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_stands_for_its_scopes_whatever_else_is_chosen() {
        let chosen = |_: &str| "write";
        assert_eq!(scopes("members", chosen), [Scope::Write(Object::OrganizationMember)]);
        assert!(
            scopes("read", chosen)
                .iter()
                .all(|scope| matches!(scope, Scope::Read(_)))
        );
        assert_eq!(scopes("read", chosen).len(), SUBJECTS.len(), "everything can be read");
        assert_eq!(scopes("own", chosen).len(), SUBJECTS.len());
        assert!(scopes("own", |_| "").is_empty());
    }

    #[test]
    fn just_one_purpose_is_chosen() {
        for sent in [None, Some("read"), Some("own"), Some(""), Some("nonsense")] {
            let chosen = purposes(sent).into_iter().filter(|purpose| purpose.is_chosen);
            assert_eq!(chosen.count(), 1, "{sent:?}");
        }
    }
}
