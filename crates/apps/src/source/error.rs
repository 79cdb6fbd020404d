//! Why there is no source.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use outbound::HttpError;

/// Who was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteSource {
    /// The host itself.
    Host(&'static str),
    /// The operator's mirror, whose address is nobody else's business.
    Mirror,
    /// The operator's npm registry, whose address is nobody else's business either.
    Registry,
}

impl fmt::Display for RemoteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host(name) => name,
            Self::Mirror => "this server's mirror for apps",
            Self::Registry => "this server's npm registry",
        })
    }
}

/// Each displays a sentence for whoever asked for the app. It holds no token, no address inside the operator's network,
/// and no words of the far side but the names of files. Sources are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Url(&'static str),
    #[error("a tag is at most 200 letters, digits and . _ + @ - /, and does not begin with a - or a /; {0:?} is none")]
    Tag(String),
    #[error("a private token has at most 500 characters, all of them letters, digits and signs of ASCII")]
    Token,
    #[error(
        "this server has no npm registry to ask; its operator can name one with HEDGEROW_NPM_REGISTRY, or a mirror with \
         HEDGEROW_APP_MIRROR"
    )]
    NoRegistry,
    #[error("this server reads no apps from its own disk; its operator can name their folder with HEDGEROW_LOCAL_APPS")]
    NoLocalApps,
    #[error("{0:?} is not a folder below HEDGEROW_LOCAL_APPS; give its path below that folder, without \"..\"")]
    NoFolder(String),
    #[error("{0:?} is a link that leads out of HEDGEROW_LOCAL_APPS")]
    LeadsOut(String),
    #[error("{name:?} cannot be read; this server's operator finds the reason in its log")]
    Unreadable { name: String, source: io::Error },

    #[error(
        "{place} has no {what}; check the URL, and if it is private, add ?private_token= and a token that may read it"
    )]
    NotFound { place: RemoteSource, what: String },
    #[error("{place} does not accept the private token; it may be mistyped, have ended, or be one of another host")]
    BadToken { place: RemoteSource },
    #[error("{place} does not let us read {what}; a private token with the right to read it would help")]
    Forbidden { place: RemoteSource, what: String },
    #[error("{place} was asked too often and wants a pause{}; a private token allows more", pause(*.seconds))]
    TooOften { place: RemoteSource, seconds: Option<u64> },
    #[error("{place} answered with status {status}; try again later")]
    Status { place: RemoteSource, status: u16 },
    #[error("{place} sends us on to another place, and we do not follow; its operator should serve the answer itself")]
    SentOn { place: RemoteSource },
    #[error("{}", unreached(*.place, .source))]
    Unreached { place: RemoteSource, source: HttpError },
    #[error("the answer of {place} about {what} makes no sense; try again later")]
    Unclear {
        place: RemoteSource,
        what: String,
        source: Option<serde_json::Error>,
    },
    #[error("{place} has no version {version} of {package}")]
    NoVersion {
        place: RemoteSource,
        package: String,
        version: String,
    },
    #[error("what {place} sent for {what} is not what its checksum promised, so it was thrown away; try again later")]
    Checksum { place: RemoteSource, what: String },

    #[error("the archive is larger than {limit} bytes; an app should be its source, without what it was built from")]
    PackedTooLarge { limit: usize },
    #[error("this is neither a zip nor a tar.gz archive")]
    NotAnArchive,
    #[error("the archive is damaged, or made in a way that we do not read")]
    Damaged(#[source] Box<dyn StdError + Send + Sync>),
    #[error("the archive says it is larger than 4 GB or has more than 65 535 entries (zip64); pack it as a plain zip")]
    Zip64,
    #[error("{0:?} is encrypted; pack it without a password")]
    Encrypted(String),
    #[error("{name:?} has a name that {problem}")]
    BadName { name: String, problem: &'static str },
    #[error("the name {name:?} is longer than {limit} characters")]
    NameTooLong { name: String, limit: usize },
    #[error("{name:?} is more than {limit} folders deep")]
    TooDeep { name: String, limit: usize },
    #[error("{0:?} is a link; put the file itself there")]
    Link(String),
    #[error("{0:?} is neither a file nor a folder")]
    NotAFile(String),
    #[error("{0:?} is there twice")]
    Twice(String),
    #[error("the archive has two entries with the same name")]
    TwoOfAName,
    #[error("{name:?} is larger than {limit} bytes")]
    FileTooLarge { name: String, limit: usize },
    #[error("with {name:?} the app is larger than {limit} bytes")]
    TooLarge { name: String, limit: usize },
    #[error("with {name:?} the app has more than {limit} files")]
    TooManyFiles { name: String, limit: usize },
    #[error("the app has more than {limit} entries; packages it depends on should not be packed with it")]
    TooManyEntries { limit: usize },
    #[error("{0:?} is not in the archive's one top folder, in which everything should be")]
    NoTopFolder(String),
    #[error("there is no folder {0:?} with text files in it")]
    NoSubfolder(String),
    #[error("there are no text files in it")]
    Empty,
    #[error("something went wrong on our side")]
    Crashed(#[source] tokio::task::JoinError),
}

impl Error {
    /// Whether whoever asked can mend it, by asking for something else or changing their app. Otherwise the far side, the
    /// network or this server is to blame, and the same request may work another time.
    pub fn is_theirs(&self) -> bool {
        match self {
            Self::Unreached { source, .. } => matches!(source, HttpError::Refused(_) | HttpError::Malformed(_)),
            Self::Unreadable { .. }
            | Self::TooOften { .. }
            | Self::Status { .. }
            | Self::SentOn { .. }
            | Self::Unclear { .. }
            | Self::Checksum { .. }
            | Self::NotAnArchive
            | Self::Damaged(_)
            | Self::Crashed(_) => false,
            _ => true,
        }
    }
}

fn pause(seconds: Option<u64>) -> String {
    match seconds {
        None => String::new(),
        Some(1) => " of 1 second".to_owned(),
        Some(seconds) if seconds < 120 => format!(" of {seconds} seconds"),
        Some(seconds) => format!(" of {} minutes", seconds.div_ceil(60)),
    }
}

/// What the client says names the host it dialled, which is not told of the operator's own.
fn unreached(place: RemoteSource, source: &HttpError) -> String {
    match place {
        RemoteSource::Host(_) => source.to_string(),
        RemoteSource::Mirror | RemoteSource::Registry => {
            format!("{place} gave no usable answer; this server's operator finds the reason in its log")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told_in_a_unit_that_fits() {
        let told = |seconds| {
            let place = RemoteSource::Host("github.com");
            Error::TooOften { place, seconds }.to_string()
        };
        assert!(told(None).contains("wants a pause;"));
        assert!(told(Some(1)).contains("a pause of 1 second;"));
        assert!(told(Some(90)).contains("a pause of 90 seconds;"));
        assert!(told(Some(121)).contains("a pause of 3 minutes;"));
    }
}
