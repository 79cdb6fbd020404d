//! The files that packages and operators use, each checked by the program it is for.

mod metrics;

use std::process::Command;

use anyhow::Result;

use crate::outcome::Outcome;
use crate::process::WorkDir;
use crate::{process, root, tools};

pub(crate) use metrics::compare_with_page;

/// The units of systemd.
pub(crate) fn units() -> Result<Outcome> {
    if process::output(Command::new("systemd-analyze").arg("--version")).is_err() {
        return Ok(Outcome::Skipped(
            "there is no systemd-analyze on this machine: apt-get install systemd",
        ));
    }
    for unit in ["hedgerow.service", "hedgerow-worker.service"] {
        let unit = root().join("packaging/systemd").join(unit);
        let mut security = Command::new("systemd-analyze");
        // 0 is the safest and 10 the most exposed; above the threshold, in tenths, it fails.
        security
            .args(["security", "--no-pager", "--offline=true", "--threshold=22"])
            .arg(&unit);
        process::output(&mut security)?;
    }
    Ok(Outcome::Passed)
}

/// Scripts that run as root on other people's machines, and the one that tries them.
pub(crate) fn scripts() -> Result<()> {
    let mut shellcheck = Command::new(tools::shellcheck()?);
    shellcheck.current_dir(root()).args([
        "packaging/debian/postinst",
        "packaging/debian/postrm",
        "xtask/src/dist/install.sh",
    ]);
    process::output(&mut shellcheck)?;
    Ok(())
}

/// The Dockerfile and the file of Compose.
pub(crate) fn containers() -> Result<()> {
    let mut hadolint = Command::new(tools::hadolint()?);
    process::output(hadolint.current_dir(root()).arg("Dockerfile"))?;
    let mut dclint = Command::new(tools::dclint()?);
    process::output(dclint.current_dir(root()).args(["--max-warnings", "0", "compose.yaml"]))?;
    Ok(())
}

/// The Helm chart: linted, rendered, and what was rendered compared with the schemas of Kubernetes.
pub(crate) fn chart() -> Result<()> {
    // Helm keeps caches in the home folder.
    let home = WorkDir::new("helm")?;
    let chart = root().join("packaging/helm/hedgerow");
    let mut helm = Command::new(tools::helm()?);
    helm.arg(root().join("xtask/src/packaging/helm.py"))
        .args([&chart, &chart.join("ci/example-values.yaml")])
        .env("HOME", &home.0)
        .env("HELM_DRIVER", "memory");
    process::output(&mut helm)?;
    Ok(())
}

/// Alerts and the dashboard: understood by Prometheus, and about metrics that exist.
pub(crate) fn monitoring() -> Result<()> {
    let promtool = tools::promtool()?;
    let folder = root().join("packaging/prometheus");
    for (check, file) in [("check", "hedgerow.rules.yml"), ("test", "hedgerow.test.yml")] {
        process::output(Command::new(&promtool).args([check, "rules"]).arg(folder.join(file)))?;
    }
    metrics::compare()
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use crate::root;

    #[test]
    fn the_chart_and_the_compose_file_name_this_version() -> Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let chart = std::fs::read_to_string(root().join("packaging/helm/hedgerow/Chart.yaml"))?;
        assert!(
            chart.contains(&format!("\nversion: {version}\nappVersion: {version}\n")),
            "{chart}"
        );
        let compose = std::fs::read_to_string(root().join("compose.yaml"))?;
        assert!(compose.contains(&format!("image: hedgerow:{version}\n")), "{compose}");
        Ok(())
    }
}
