//! The plot of `docs/benchmarks.md`: bars on a logarithmic scale, drawn as SVG without any library.

use std::fmt::Write as _;

use super::document::grouped;
use super::names::{FLOOR, POSTGRES, SQLITE};

const WIDTH: f64 = 860.0;
/// Left of it stand the names.
const LEFT: f64 = 190.0;
/// Right of it the longest bar's number still finds room.
const RIGHT: f64 = 770.0;
const TOP: f64 = 58.0;
const BAR: f64 = 20.0;
const STEP: f64 = 25.0;
const HEADING: f64 = 34.0;

/// Groups of bars.
pub(super) struct Plot {
    pub(super) title: &'static str,
    /// What the bars measure.
    pub(super) heading: &'static str,
    pub(super) groups: Vec<Group>,
}

/// Bars that stand together, each with its name.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) bars: Vec<(String, f64)>,
}

impl Plot {
    /// The drawing as text.
    pub(super) fn svg(&self) -> String {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let bottom = TOP + f64_of(self.groups.len()) * HEADING + f64_of(bars) * STEP + 8.0;
        let rates = self.groups.iter().flat_map(|group| &group.bars).map(|(_, rate)| *rate);
        let scale = Scale::around(rates);

        let mut text = self.head(bottom + 44.0);
        text += &scale.grid(TOP, bottom);
        let mut y = TOP;
        for group in &self.groups {
            y += HEADING;
            let _ = writeln!(
                text,
                r#"<text class="group" x="12" y="{:.1}">{}</text>"#,
                y - 10.0,
                escaped(&group.title)
            );
            for (name, rate) in &group.bars {
                text += &bar(name, *rate, scale.x(*rate), y);
                y += STEP;
            }
        }
        text + "</svg>\n"
    }

    fn head(&self, height: f64) -> String {
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" role="img" aria-labelledby="title description">
<title id="title">{}, on a logarithmic scale</title>
<desc id="description">{}</desc>
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1f2328; }}
.heading {{ font-size: 16px; font-weight: 600; }}
.group {{ font-weight: 600; }}
.tick {{ fill: #57606a; }}
line {{ stroke: #d0d7de; }}
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
<text class="heading" x="12" y="28">{} (logarithmic scale; longer is faster)</text>
"##,
            escaped(self.title),
            escaped(&self.description()),
            escaped(self.heading)
        )
    }

    /// The same numbers in words, for those who cannot see the bars.
    fn description(&self) -> String {
        let mut text = String::new();
        for group in &self.groups {
            let numbers: Vec<String> = group
                .bars
                .iter()
                .map(|(name, rate)| format!("{name} {rate:.0}"))
                .collect();
            let _ = write!(text, "{}: {}. ", group.title, numbers.join("; "));
        }
        text.trim_end().to_owned()
    }
}

fn bar(name: &str, rate: f64, x: f64, y: f64) -> String {
    let middle = y + BAR / 2.0 + 4.5;
    format!(
        "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{}\"/>\n\
         <text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>\n",
        LEFT - 10.0,
        escaped(name),
        x - LEFT,
        color(name),
        x + 8.0,
        grouped(rate)
    )
}

/// Ours stand out in green, the limit and the peers in greys; names carry the meaning, not colors.
fn color(name: &str) -> &'static str {
    match name {
        SQLITE | "Hedgerow" => "#1a7f37",
        POSTGRES | "Hedgerow, to S3" => "#4ac26b",
        FLOOR => "#57606a",
        _ => "#afb8c1",
    }
}

/// From one power of ten to another.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(rates: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 1.0_f64);
        for rate in rates {
            least = least.min(rate);
            most = most.max(rate);
        }
        let low = if least.is_finite() {
            least.max(1.0).log10().floor()
        } else {
            0.0
        };
        // A bar that ends where the scale begins would not be seen.
        let low = if least.log10() - low < 0.1 {
            (low - 1.0).max(0.0)
        } else {
            low
        };
        Self {
            low,
            high: most.log10().ceil().max(low + 1.0),
        }
    }

    fn x(&self, rate: f64) -> f64 {
        LEFT + (rate.max(1.0).log10() - self.low).max(0.0) / (self.high - self.low) * (RIGHT - LEFT)
    }

    fn grid(&self, top: f64, bottom: f64) -> String {
        let mut text = String::new();
        let mut power = self.low;
        while power <= self.high {
            let rate = 10_f64.powf(power);
            let x = self.x(rate);
            let _ = writeln!(text, r#"<line x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom:.1}"/>"#);
            let label = grouped(rate);
            let _ = writeln!(
                text,
                r#"<text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
                bottom + 20.0
            );
            power += 1.0;
        }
        text
    }
}

fn f64_of(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_of_ten_is_equally_far() {
        let scale = Scale::around([20.0, 50_000.0].into_iter());
        let far = |from: f64, to: f64| scale.x(to) - scale.x(from);
        assert!((far(10.0, 100.0) - far(10_000.0, 100_000.0)).abs() < 1e-6);
        assert!((scale.x(100_000.0) - RIGHT).abs() < 1e-6);
    }

    #[test]
    fn nothing_measured_is_still_a_drawing() {
        let plot = Plot {
            title: "",
            heading: "",
            groups: Vec::new(),
        };
        assert!(plot.svg().ends_with("</svg>\n"));
    }
}
