//! Numbers with units, as people write them.

/// Bytes in binary units: `52.2 GiB`.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (value, unit) = scaled(n as f64, 1024.0, &units);
    if unit == "B" { format!("{n} B") } else { format!("{} {unit}", three_digits(value)) }
}

/// A count in decimal units: `196.96B`, `4.1k`.
pub fn count(n: f64) -> String {
    let (value, unit) = scaled(n, 1000.0, &["", "k", "M", "B", "T"]);
    match unit {
        "" if n.fract() == 0.0 => format!("{n}"),
        "B" | "T" => format!("{value:.2}{unit}"),
        _ => format!("{}{unit}", three_digits(value)),
    }
}

/// Seconds of something short: `1.42 s`, `310 ms`, `8.10 µs`.
pub fn seconds(s: f64) -> String {
    let (value, unit) = match s {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A part of a whole: `12.3%`.
pub fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// Seconds as `8.2 s`, `3:05` or `2:10:00`.
pub fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let s = seconds.round() as u64;
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

fn scaled<'a>(mut value: f64, step: f64, units: &[&'a str]) -> (f64, &'a str) {
    let mut at = 0;
    while value.abs() >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    (value, units[at])
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        let shown = [bytes(0), bytes(1023), bytes(1536), bytes(56_035_000_000), bytes(u64::MAX)];
        assert_eq!(shown, ["0 B", "1023 B", "1.50 KiB", "52.2 GiB", "16384 PiB"]);
        let shown = [count(753.0), count(4096.0), count(786_432.0), count(196_956_130_368.0), count(0.5)];
        assert_eq!(shown, ["753", "4.10k", "786k", "196.96B", "0.50"]);
        assert_eq!([seconds(1.5), seconds(0.31), seconds(8.1e-6)], ["1.50 s", "310 ms", "8.10 µs"]);
        assert_eq!([duration(8.21), duration(185.2), duration(7800.0)], ["8.2 s", "3:05", "2:10:00"]);
    }
}
