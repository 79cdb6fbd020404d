//! The ways out, as the settings say.

use std::time::Duration;

use anyhow::{Context, bail};
use apps::{AppsDeps, Catalog, Sources};
use exports::ExportsDeps;
use identity::{IdentityDeps, Provider, Providers};
use outbound::{Dialer, Dns, Http, Mailer, Policy, Roots};
use sandbox::{Limits, Program, Sandbox};
use url::Url;

use crate::settings::{ProviderSettings, Settings};

pub(crate) fn deps(settings: &Settings) -> anyhow::Result<IdentityDeps> {
    let roots = roots(settings)?;
    let policy = Policy::new(settings.allow_private_networks.clone());
    let dns = if settings.dns.is_empty() {
        Dns::system().context("the system's DNS servers cannot be used: set others with --dns")?
    } else {
        Dns::new(&settings.dns).context("the DNS servers in --dns cannot be used")?
    };
    let mailer = settings
        .smtp_url
        .as_deref()
        .map(|url| Mailer::new(url, &settings.mail_from, &roots));
    Ok(IdentityDeps {
        http: Http::new(Dialer::new(policy), &roots)?,
        dns,
        mailer: mailer.transpose().context("the email settings are invalid")?,
        providers: providers(&settings.providers)?,
    })
}

/// A part of a file may have to go through a narrow line.
const UPLOAD_TIME: Duration = Duration::from_mins(2);

/// What exports may reach.
pub(crate) fn exports_deps(settings: &Settings) -> anyhow::Result<ExportsDeps> {
    let roots = roots(settings)?;
    let dialer = Dialer::new(Policy::new(settings.allow_private_networks.clone()));
    Ok(ExportsDeps {
        http: Http::new(dialer.clone(), &roots)?.within(UPLOAD_TIME),
        dialer,
        roots,
        export_root: settings.data.export_root.clone(),
    })
}

/// The subcommand that apps run in.
pub(crate) const SANDBOX: &str = "sandbox";

/// What apps may reach, and where they come from.
pub(crate) fn apps(settings: &Settings) -> anyhow::Result<AppsDeps> {
    let roots = roots(settings)?;
    // Two of them: however many names apps look up, their code can still be fetched.
    let policy = Policy::new(settings.allow_private_networks.clone());
    let [http, hosts] = [policy.clone(), policy].map(|policy| Http::new(Dialer::new(policy), &roots));
    // A mirror, a registry and a catalog are chosen by the operator, and may well be at private addresses.
    let operator = Http::new(Dialer::new(Policy::for_the_operator()), &roots)?;
    let named = &settings.apps;
    Ok(AppsDeps {
        sandbox: Sandbox::new(Program::this_with(SANDBOX), Limits::default()).with(named.sandbox),
        sources: Sources {
            mirror: named.app_mirror.clone(),
            npm_registry: named.npm_registry.clone(),
            local_root: named.local_apps.clone(),
            ..Sources::new(hosts?, operator.clone())
        },
        catalog: Catalog::new(named.app_catalog.as_deref(), operator),
        http: http?,
        slots: settings.data.workers.into(),
    })
}

pub(crate) fn roots(settings: &Settings) -> anyhow::Result<Roots> {
    let Some(file) = &settings.ca_file else {
        return Ok(Roots::public());
    };
    let pem = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Roots::with_pem(&pem).with_context(|| format!("cannot use {}", file.display()))
}

pub(crate) fn providers(settings: &ProviderSettings) -> anyhow::Result<Providers> {
    let ProviderSettings {
        google_client_id,
        google_client_secret,
        google_url,
        github_client_id,
        github_client_secret,
        github_url,
        gitlab_client_id,
        gitlab_client_secret,
        gitlab_url,
    } = settings.clone();
    Ok(Providers {
        google: provider("GOOGLE", google_client_id, google_client_secret, google_url)?,
        github: provider("GITHUB", github_client_id, github_client_secret, github_url)?,
        gitlab: provider("GITLAB", gitlab_client_id, gitlab_client_secret, gitlab_url)?,
    })
}

fn provider(
    name: &str,
    client_id: Option<String>,
    client_secret: Option<String>,
    url: Option<Url>,
) -> anyhow::Result<Option<Provider>> {
    match (client_id, client_secret) {
        (Some(client_id), Some(client_secret)) => Ok(Some(Provider {
            client_id,
            client_secret: client_secret.into(),
            url: url.map(|url| url.to_string()),
        })),
        (None, None) => Ok(None),
        _ => bail!("HEDGEROW_{name}_CLIENT_ID and HEDGEROW_{name}_CLIENT_SECRET go together: set both or none"),
    }
}
