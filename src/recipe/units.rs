//! Numbers with a unit: `64GiB`, `4Ki`, `15T`, `30min`, `22%`.

use super::value::Value;

/// What one unit is worth.
enum Unit {
    Bytes(f64),
    Count(f64),
    /// So many to a second, so that `10us` is the nearest number to it.
    PerSecond(f64),
    Seconds(f64),
    Percent,
}

const KI: f64 = 1024.0;
/// Under the largest 64-bit integer.
const LARGEST: f64 = 9.2e18;

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "B" => Unit::Count(1e9),
        "kB" | "KB" => Unit::Bytes(1e3),
        "MB" => Unit::Bytes(1e6),
        "GB" => Unit::Bytes(1e9),
        "TB" => Unit::Bytes(1e12),
        "PB" => Unit::Bytes(1e15),
        "KiB" => Unit::Bytes(KI),
        "MiB" => Unit::Bytes(KI * KI),
        "GiB" => Unit::Bytes(KI * KI * KI),
        "TiB" => Unit::Bytes(KI * KI * KI * KI),
        "Ki" => Unit::Count(KI),
        "Mi" => Unit::Count(KI * KI),
        "Gi" => Unit::Count(KI * KI * KI),
        "k" | "K" => Unit::Count(1e3),
        "M" => Unit::Count(1e6),
        "G" => Unit::Count(1e9),
        "T" => Unit::Count(1e12),
        "ns" => Unit::PerSecond(1e9),
        "us" => Unit::PerSecond(1e6),
        "ms" => Unit::PerSecond(1e3),
        "s" => Unit::Seconds(1.0),
        "min" => Unit::Seconds(60.0),
        "h" => Unit::Seconds(3600.0),
        "d" => Unit::Seconds(86400.0),
        "%" => Unit::Percent,
        _ => return None,
    })
}

/// Every unit, for suggestions and the manual.
pub const UNITS: &[&str] = &[
    "kB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB", "Ki", "Mi", "Gi", "K", "M", "B", "G", "T",
    "ns", "us", "ms", "s", "min", "h", "d", "%",
];

/// Why a number with a unit has no value.
pub enum UnitError {
    Unknown,
    /// Over the range of 64-bit integers.
    TooLarge,
}

/// The value of `number` followed by `word`. Sizes are rounded to whole bytes; a count is an integer where it is whole.
pub fn measure(number: f64, word: &str) -> Result<Value, UnitError> {
    match unit(word).ok_or(UnitError::Unknown)? {
        Unit::Bytes(scale) => whole((number * scale).round()).map(Value::Size),
        Unit::Count(scale) => {
            let count = number * scale;
            if count.abs() > LARGEST {
                return Err(UnitError::TooLarge);
            }
            // `353.9 * 1e12` is not exact in binary: what is within rounding of a whole number is meant as one.
            if (count - count.round()).abs() <= count.abs() * f64::EPSILON {
                whole(count.round()).map(Value::Int)
            } else {
                Ok(Value::Float(count))
            }
        }
        Unit::PerSecond(scale) => Ok(Value::Duration(number / scale)),
        Unit::Seconds(scale) => Ok(Value::Duration(number * scale)),
        Unit::Percent => Ok(Value::Ratio(number / 100.0)),
    }
}

/// The bytes of a size as it is written in a recipe, `5GB` or `500MiB`.
pub fn size_of(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| c.is_alphabetic())?;
    match measure(text[..digits].trim().parse().ok()?, &text[digits..]) {
        Ok(Value::Size(bytes)) => u64::try_from(bytes).ok(),
        _ => None,
    }
}

fn whole(number: f64) -> Result<i64, UnitError> {
    if number.abs() <= LARGEST { Ok(number as i64) } else { Err(UnitError::TooLarge) }
}

/// `65536` as `64KiB`: in the largest unit that divides it, else in bytes.
pub fn show_size(bytes: i64) -> String {
    const STEPS: [(&str, i64); 8] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
    ];
    let fits = STEPS.iter().filter(|(_, scale)| bytes != 0 && bytes % scale == 0);
    match fits.max_by_key(|(_, scale)| *scale) {
        Some((word, scale)) => format!("{}{word}", bytes / scale),
        None => format!("{bytes} bytes"),
    }
}

/// `0.0001` as `100us`: in the largest unit of which it is a whole number, else in seconds.
pub fn show_duration(seconds: f64) -> String {
    const STEPS: [(&str, f64); 7] =
        [("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
    let whole = |number: f64| number >= 1.0 && (number - number.round()).abs() <= number * 1e-12;
    match STEPS.iter().find(|(_, scale)| whole(seconds / scale)) {
        Some((word, scale)) => format!("{:.0}{word}", seconds / scale),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_their_values() {
        let value = |number, word| measure(number, word).ok();
        assert_eq!(value(4.0, "Ki"), Some(Value::Int(4096)));
        assert_eq!(value(353.9, "T"), Some(Value::Int(353_900_000_000_000)));
        assert_eq!(value(64.0, "GiB"), Some(Value::Size(64 << 30)));
        assert_eq!(value(80.0, "GB"), Some(Value::Size(80_000_000_000)));
        assert_eq!(value(30.0, "min"), Some(Value::Duration(1800.0)));
        assert_eq!(value(10.0, "us"), Some(Value::Duration(1e-5)));
        assert_eq!(value(22.0, "%"), Some(Value::Ratio(0.22)));
        assert_eq!(
            ["5GB", "1.5 KiB", "7", "-1GB", "4Ki"].map(size_of),
            [Some(5_000_000_000), Some(1536), None, None, None]
        );
        assert_eq!(value(1.0, "furlong"), None);
        assert_eq!(value(1e300, "T"), None);
        assert!(UNITS.iter().all(|word| unit(word).is_some()));
    }

    #[test]
    fn sizes_are_shown_as_written() {
        assert_eq!(show_size(64 << 30), "64GiB");
        assert_eq!(show_size(80_000_000_000), "80GB");
        assert_eq!(show_size(0), "0 bytes");
        assert_eq!(
            ["2us", "90s", "30min", "0s", "1500ms"].map(str::to_owned),
            [2e-6, 90.0, 1800.0, 0.0, 1.5].map(show_duration)
        );
    }
}
