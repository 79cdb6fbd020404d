//! Packages that an app can import.

use crate::code::Target;

/// Those that are there. What they hold stands in `prelude/packages.js`.
const PROVIDED: [&str; 8] = [
    "@posthog/plugin-contrib",
    "@posthog/plugin-scaffold",
    "buffer",
    "crypto",
    "node-fetch",
    "stream",
    "url",
    "util",
];

/// Those that the origin product gave, and we do not: apps that import them can be read all the same.
const ABSENT: [&str; 16] = [
    "@aws-sdk",
    "@google-cloud/bigquery",
    "@google-cloud/pubsub",
    "@google-cloud/storage",
    "@maxmind/geoip2-node",
    "aws-sdk",
    "faker",
    "generic-pool",
    "ioredis",
    "jsonwebtoken",
    "mongodb",
    "mysql2",
    "pg",
    "redis",
    "snowflake-sdk",
    "zlib",
];

/// What the import of a package means, if anything.
pub(crate) fn find(specifier: &str) -> Option<Target> {
    let name = specifier.strip_prefix("node:").unwrap_or(specifier);
    let is_of = |package: &&&str| {
        name.strip_prefix(**package)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let provided = PROVIDED
        .iter()
        .find(is_of)
        .map(|package| Target::Package((*package).to_owned()));
    provided.or_else(|| {
        ABSENT
            .iter()
            .any(|package| is_of(&package))
            .then(|| Target::Absent(name.to_owned()))
    })
}

/// The sentence for any other.
pub(crate) fn refusal(specifier: &str) -> String {
    let provided = PROVIDED.join(", ");
    format!("Cannot import '{specifier}': this package is not available to apps; available packages: {provided}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_known_by_their_whole_name() {
        assert_eq!(find("node:crypto"), Some(Target::Package("crypto".to_owned())));
        assert_eq!(
            find("@posthog/plugin-scaffold/src/types"),
            find("@posthog/plugin-scaffold")
        );
        assert_eq!(
            find("aws-sdk/clients/s3"),
            Some(Target::Absent("aws-sdk/clients/s3".to_owned()))
        );
        assert_eq!(find("pgx"), None);
    }
}
