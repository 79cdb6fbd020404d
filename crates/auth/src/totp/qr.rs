//! A QR code as a picture for pages.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

/// Readers want four modules of white around the code.
const QUIET: usize = 4;

/// Draws a QR code: black on white whatever the page's colors are, as readers need it. None if the text is too long.
pub fn qr_svg(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let size = code.width() + 2 * QUIET;
    let path = path(&code);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" role=\"img\" \
         shape-rendering=\"crispEdges\"><title>QR code for your authenticator app</title>\
         <rect width=\"{size}\" height=\"{size}\" fill=\"#fff\"/><path fill=\"#000\" d=\"{path}\"/></svg>"
    ))
}

/// One stroke for each run of dark modules in a row.
fn path(code: &QrCode) -> String {
    let mut path = String::new();
    for (y, row) in code.to_colors().chunks(code.width()).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|left, right| left == right) {
            if run[0] == Color::Dark {
                let length = run.len();
                write!(path, "M{} {}h{length}v1h-{length}z", x + QUIET, y + QUIET).expect("a string takes all text");
            }
            x += run.len();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_needs_no_script_and_has_a_title() {
        let svg = qr_svg("otpauth://totp/Hedgerow:ada%40example.com?secret=GEZDGNBVGY3TQOJQ").unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
        assert!(svg.contains("<title>") && svg.contains("role=\"img\""));
        assert!(!svg.contains("script") && !svg.contains("currentColor") && !svg.contains("otpauth"));
    }

    #[test]
    fn every_dark_module_is_drawn_inside_the_quiet_zone() {
        let code = QrCode::with_error_correction_level("hedgerow", EcLevel::M).unwrap();
        let dark = code.to_colors().iter().filter(|color| **color == Color::Dark).count();
        let runs = path(&code);
        let lengths = runs.split('M').skip(1).map(|run| {
            let (from, rest) = run.split_once('h').unwrap();
            let (x, y) = from.split_once(' ').unwrap();
            let length: usize = rest.split_once('v').unwrap().0.parse().unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(x >= QUIET && y >= QUIET && x + length <= code.width() + QUIET && y < code.width() + QUIET);
            length
        });
        assert_eq!(lengths.sum::<usize>(), dark);
    }

    #[test]
    fn too_much_text_is_no_picture() {
        assert!(qr_svg(&"x".repeat(10_000)).is_none());
    }
}
