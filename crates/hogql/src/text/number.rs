//! Numbers in text.

/// The shortest text that reads back as the same number, as ClickHouse writes it: digits up to 21 of them, exponents
/// beyond and below a millionth.
pub(crate) fn float_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        format!("{number}")
    } else {
        format!("{number:e}")
    }
}

/// Digits with an optional sign, if they fit.
pub(crate) fn read_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain = (1..=19).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// A decimal number with an optional exponent; neither `inf` nor `nan`, and nothing that is too large.
pub(crate) fn read_float(text: &str) -> Option<f64> {
    let is_decimal = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.bytes().all(is_decimal) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_clickhouse_writes_them() {
        let cases = [
            (1000.0, "1000"),
            (1.5, "1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (1.5e21, "1.5e21"),
            (0.000_001, "0.000001"),
            (1.5e-7, "1.5e-7"),
            (123_456_789_012_345_680.0, "123456789012345680"),
            (5e-324, "5e-324"),
            (-0.0, "-0"),
            (f64::MAX, "1.7976931348623157e308"),
        ];
        for (number, text) in cases {
            assert_eq!(float_text(number), text);
        }
    }

    #[test]
    fn only_plain_numbers_are_read() {
        assert_eq!(read_int("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(read_int("+7"), Some(7));
        for text in ["", "-", " 1", "1.0", "9223372036854775808", "0x1", "١"] {
            assert_eq!(read_int(text), None, "{text}");
        }
        assert_eq!(read_float(".5"), Some(0.5));
        assert_eq!(read_float("1.5e3"), Some(1500.0));
        for text in ["", ".", "e5", "inf", "nan", "infinity", "1e999", " 1", "1_0"] {
            assert_eq!(read_float(text), None, "{text}");
        }
    }
}
