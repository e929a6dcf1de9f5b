//! How Pi writes a line: times and strings.

/// A string as JSON.
pub(super) fn quote(text: &str) -> String {
    // Almost every id and name stands as it is.
    if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\')) {
        return ["\"", text, "\""].concat();
    }
    serde_json::to_string(text).expect("a string is JSON")
}

/// Milliseconds since 1970 as `JSON.stringify` writes a date.
pub(super) fn iso(ms: u64) -> String {
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second, milli) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1_000 % 60, in_day % 1_000);
    let mut out = String::with_capacity(24);
    let mut two = |value: u64, after: &str| {
        out.push(digit(value / 10));
        out.push(digit(value));
        out.push_str(after);
    };
    two(year / 100, "");
    two(year, "-");
    two(month, "-");
    two(day, "T");
    two(hour, ":");
    two(minute, ":");
    two(second, ".");
    two(milli / 10, "");
    out.push(digit(milli));
    out.push('Z');
    out
}

/// The last digit of a number.
fn digit(value: u64) -> char {
    char::from(b'0' + u8::try_from(value % 10).expect("a digit"))
}

/// Days since 1970 as year, month and day of the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from a first of March, so that a leap day is the last day of its year; 719,468 days lie before 1970.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_javascript_writes_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_796_007_115_667, "2026-11-30T02:51:55.667Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(ms), text);
        }
    }
}
