//! Load by `wrk`: as fast as it goes, or at a given rate.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::http::{Request, unique_number};
use crate::process;

/// Connections under full load.
pub(super) const CONNECTIONS: u32 = 32;

/// More of them at a given rate, so that waiting for answers hardly lowers it.
const PACED_CONNECTIONS: u32 = 64;

/// What one run of the load tool saw.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Requests a second.
    pub(super) rate: f64,
    /// Milliseconds.
    pub(super) p50: f64,
    /// Milliseconds.
    pub(super) p99: f64,
}

/// The load tool, and the folder for its scripts.
pub(super) struct Load {
    dir: PathBuf,
}

impl Load {
    pub(super) fn new(dir: &Path) -> Result<Self> {
        process::need(Path::new("wrk"), "wrk")?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Every connection asks again as soon as it is answered.
    pub(super) fn full(&self, port: u16, request: &Request, seconds: u32) -> Result<Run> {
        self.run(port, request, seconds, CONNECTIONS, &script(request))
    }

    /// About `rate` requests a second at random moments, as many independent clients would send them.
    pub(super) fn paced(&self, port: u16, request: &Request, seconds: u32, rate: f64) -> Result<Run> {
        let mean = f64::from(PACED_CONNECTIONS) / rate * 1000.0;
        let script = script(request) + &PAUSES.replace("MEAN", &format!("{mean:.4}"));
        self.run(port, request, seconds, PACED_CONNECTIONS, &script)
    }

    fn run(&self, port: u16, request: &Request, seconds: u32, connections: u32, script: &str) -> Result<Run> {
        let file = self.dir.join("load.lua");
        fs::write(&file, script)?;
        let mut wrk = Command::new("wrk");
        wrk.args([
            "-t1",
            &format!("-c{connections}"),
            &format!("-d{seconds}s"),
            "--timeout",
            "10s",
            "--latency",
            "-s",
        ]);
        let printed = process::output(wrk.arg(&file).arg(format!("http://127.0.0.1:{port}{}", request.path)))?;
        read(&printed).with_context(|| format!("while measuring {} {}", request.method, request.path))
    }
}

/// Random pauses whose mean is MEAN milliseconds, rounded up or down so that the mean stays.
const PAUSES: &str = "
math.randomseed(os.time())
function delay()
  local pause = -math.log(1 - math.random()) * MEAN
  local whole = math.floor(pause)
  if math.random() < pause - whole then return whole + 1 end
  return whole
end
";

/// A body with a number in it is put together for each request; anything else is sent as it is, which costs `wrk` least.
const CHANGING: &str = r#"
function request()
  n = n + 1
  local headers = {}
  for name, value in pairs(wrk.headers) do
    headers[name] = (value:gsub("{{credential}}", function() return credentials[n % #credentials + 1] end))
  end
  local changed = body:gsub("{{n}}", string.format("%.0f", n)):gsub("{{level}}", n % 2 == 0 and "1" or "8")
  return wrk.format(nil, nil, headers, changed)
end
"#;

/// One line that is easier to read than the summary.
const RESULT: &str = r#"
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'result {"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
"#;

fn script(request: &Request) -> String {
    let mut script = format!("wrk.method = {}\n", quoted(&request.method));
    for (name, value) in &request.headers {
        let _ = writeln!(script, "wrk.headers[{}] = {}", quoted(name), quoted(value));
    }
    if let Some(body) = request.body.as_ref().filter(|body| !body.contains("{{")) {
        let _ = writeln!(script, "wrk.body = {}", quoted(body));
    } else if let Some(body) = &request.body {
        let credentials: Vec<String> = request
            .credentials
            .iter()
            .map(|credential| quoted(credential))
            .collect();
        let _ = writeln!(script, "local body = {}", quoted(body));
        let _ = writeln!(script, "local credentials = {{ {} }}", credentials.join(", "));
        let _ = writeln!(script, "local n = {}", unique_number());
        script += CHANGING;
    }
    script + RESULT
}

fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    )
}

fn read(printed: &str) -> Result<Run> {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("result "))
        .context("wrk printed no result")?;
    let result: Value = serde_json::from_str(line).with_context(|| format!("wrk printed {line}"))?;
    let number = |name: &str| {
        result[name]
            .as_f64()
            .with_context(|| format!("wrk printed no {name}: {line}"))
    };
    let requests = number("requests")?;
    let (refused, broken) = (number("refused")?, number("broken")?);
    ensure!(requests > 0.0, "no request was answered");
    ensure!(refused == 0.0, "{refused} of {requests} answers were errors");
    // A server may close an idle connection just as the next request is sent.
    ensure!(
        broken <= requests / 1000.0,
        "{broken} connections broke during {requests} requests"
    );
    Ok(Run {
        rate: requests / number("microseconds")? * 1e6,
        p50: number("p50")? / 1000.0,
        p99: number("p99")? / 1000.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_read_and_errors_are_refused() -> Result<()> {
        let line = |refused: u32| {
            format!(
                "x\nresult {{\"requests\":100,\"microseconds\":2000000,\"p50\":1500,\"p99\":4000,\"refused\":{refused},\"broken\":0}}\n"
            )
        };
        let run = read(&line(0))?;
        assert!((run.rate - 50.0).abs() < 1e-9 && (run.p50 - 1.5).abs() < 1e-9 && (run.p99 - 4.0).abs() < 1e-9);
        assert!(read(&line(1)).is_err());
        assert!(read("nothing").is_err());
        Ok(())
    }

    #[test]
    fn a_body_is_quoted_for_the_script() {
        assert_eq!(quoted("{\"a\":\"\\n\"}"), "\"{\\\"a\\\":\\\"\\\\n\\\"}\"");
    }
}
