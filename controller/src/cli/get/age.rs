//! Formats durations as kubectl does (`duration.HumanDuration` of k8s.io/apimachinery): the two
//! largest relevant units.

use jiff::SignedDuration;

/// Formats `duration` in at most two units; a negative one as `0s`, because clocks differ.
pub(in crate::cli) fn human(duration: SignedDuration) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = duration.as_secs().max(0);
    let in_two = |large: i64, one: &str, small: i64, other: &str| {
        let rest = seconds % large / small;
        if rest == 0 {
            format!("{}{one}", seconds / large)
        } else {
            format!("{}{one}{rest}{other}", seconds / large)
        }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => in_two(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => in_two(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => in_two(DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => in_two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_shown_as_kubectl_shows_them() {
        for (seconds, shown) in [
            (-3, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000 + 86_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)), shown);
        }
    }
}
