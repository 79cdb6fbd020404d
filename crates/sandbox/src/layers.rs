//! What keeps a child away from the system, layer by layer, and whether it does so here.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the measures that keep a child away from the system. Each holds on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// No descriptor of the server's is left open.
    Descriptors,
    /// A network without interfaces.
    NetworkNamespace,
    /// A user namespace without rights: other processes cannot be looked into.
    UserNamespace,
    /// Another user, without groups, if the server runs as root.
    User,
    /// Landlock: no file.
    LandlockFiles,
    /// Landlock: no port.
    LandlockNetwork,
    /// Landlock: no signal and no abstract socket of processes outside.
    LandlockScopes,
    /// Limits on memory, processor time, processes and files.
    Limits,
    /// No program that would give it other rights.
    NoNewPrivileges,
    /// Seccomp: no system call but a few.
    SystemCalls,
}

impl Layer {
    pub const ALL: [Self; 10] = [
        Self::Descriptors,
        Self::NetworkNamespace,
        Self::UserNamespace,
        Self::User,
        Self::LandlockFiles,
        Self::LandlockNetwork,
        Self::LandlockScopes,
        Self::Limits,
        Self::NoNewPrivileges,
        Self::SystemCalls,
    ];

    /// Without these no app runs, whatever the operator says.
    const REQUIRED: [Self; 2] = [Self::NoNewPrivileges, Self::SystemCalls];

    /// As logs and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::NetworkNamespace => "network_namespace",
            Self::UserNamespace => "user_namespace",
            Self::User => "user",
            Self::LandlockFiles => "landlock_files",
            Self::LandlockNetwork => "landlock_network",
            Self::LandlockScopes => "landlock_scopes",
            Self::Limits => "limits",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::SystemCalls => "system_calls",
        }
    }

    /// What it means for the operator that it is missing, and how to get it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Descriptors => {
                "processes of apps may keep descriptors that the server inherited, which the system call filter does not \
                 let them use; mount /proc"
            }
            Self::NetworkNamespace => {
                "only the system call filter and Landlock keep processes of apps from the network; allow user namespaces \
                 (user.max_user_namespaces above 0, in a container a seccomp and AppArmor profile that allows unshare), \
                 or start the server as root with CAP_SYS_ADMIN"
            }
            Self::UserNamespace => {
                "only the system call filter and the server being undumpable keep processes of apps from looking into \
                 other processes of the same user; allow user namespaces (user.max_user_namespaces above 0, in a container \
                 a seccomp and AppArmor profile that allows unshare)"
            }
            Self::User => {
                "processes of apps run as root like the server; start it as another user, or give it CAP_SETUID and \
                 CAP_SETGID"
            }
            Self::LandlockFiles => {
                "only the system call filter and the limit on descriptors keep processes of apps from files; use Linux \
                 5.13 or newer with landlock among the security modules (lsm=landlock,…)"
            }
            Self::LandlockNetwork => {
                "only the system call filter and the network namespace keep processes of apps from the network; use \
                 Linux 6.7 or newer with Landlock"
            }
            Self::LandlockScopes => {
                "only the system call filter keeps processes of apps from sending signals to processes of the same user; \
                 use Linux 6.12 or newer with Landlock"
            }
            Self::Limits => "processes of apps may use more memory and processor time than they should",
            Self::NoNewPrivileges => "no app can run here; use Linux 3.5 or newer",
            Self::SystemCalls => "no app can run here; use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a layer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    InForce,
    /// There is nothing for it to do.
    NotNeeded,
    /// The system refused it, for this reason.
    Missing(String),
}

impl State {
    pub(crate) fn of<T, E: fmt::Display>(outcome: Result<T, E>) -> Self {
        match outcome {
            Ok(_) => Self::InForce,
            Err(error) => Self::Missing(error.to_string()),
        }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// Which layers hold for a child; it says so itself, before it sees anything of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers(BTreeMap<Layer, State>);

impl Layers {
    pub(crate) fn note(&mut self, layer: Layer, state: State) {
        self.0.insert(layer, state);
    }

    /// One that was never tried is missing, too.
    pub fn state(&self, layer: Layer) -> State {
        let untried = || State::Missing("it was not tried".to_owned());
        self.0.get(&layer).cloned().unwrap_or_else(untried)
    }

    /// Those that do not hold, and why.
    pub fn missing(&self) -> Vec<(Layer, String)> {
        let all = Layer::ALL.into_iter().map(|layer| (layer, self.state(layer)));
        all.filter_map(|(layer, state)| match state {
            State::Missing(reason) => Some((layer, reason)),
            State::InForce | State::NotNeeded => None,
        })
        .collect()
    }

    /// Whether apps may run with these.
    pub fn are_enough(&self, strictness: Strictness) -> bool {
        let missing = self.missing();
        match strictness {
            Strictness::Strict => missing.is_empty(),
            Strictness::BestEffort => missing.iter().all(|(layer, _)| !Layer::REQUIRED.contains(layer)),
        }
    }
}

/// What happens on a system that does not offer every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strictness {
    /// Apps run with what there is, but never without the filter of system calls.
    #[default]
    BestEffort,
    /// Apps run with all layers, or not at all.
    Strict,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_but(without: &[Layer]) -> Layers {
        let mut layers = Layers::default();
        for layer in Layer::ALL {
            if !without.contains(&layer) {
                layers.note(layer, State::InForce);
            }
        }
        layers
    }

    #[test]
    fn best_effort_does_without_some_layers_and_strict_without_none() {
        let whole = all_but(&[]);
        assert!(whole.are_enough(Strictness::Strict) && whole.are_enough(Strictness::BestEffort));
        let old_kernel = all_but(&[Layer::LandlockFiles, Layer::UserNamespace]);
        assert!(!old_kernel.are_enough(Strictness::Strict) && old_kernel.are_enough(Strictness::BestEffort));
        for layer in Layer::REQUIRED {
            assert!(!all_but(&[layer]).are_enough(Strictness::BestEffort), "{layer}");
        }
        assert!(!Layers::default().are_enough(Strictness::BestEffort));
    }

    #[test]
    fn what_is_not_needed_is_not_missing() {
        let mut layers = all_but(&[Layer::User]);
        assert_eq!(layers.missing(), [(Layer::User, "it was not tried".to_owned())]);
        layers.note(Layer::User, State::NotNeeded);
        assert_eq!(layers.missing(), []);
    }
}
