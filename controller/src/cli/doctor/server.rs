//! Checks of the control cluster's API server: it responds, and its clock agrees with this one.

use argosy_core::Failure;
use axum::http::{Request, header::DATE};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};

use super::finding::Judgment;
use crate::runtime::requests::call;

/// The first minor version of Kubernetes with ValidatingAdmissionPolicies.
const FIRST_WITH_POLICIES: u32 = 30;

/// Maximum difference of well-synchronized clocks.
const GOOD: SignedDuration = SignedDuration::from_secs(2);

/// Difference from which on new objects look old, and certificates not yet valid.
const BAD: SignedDuration = SignedDuration::from_mins(1);

/// Requests the version.
pub(super) async fn answers(wds: &Client) -> Result<Judgment, Failure> {
    let version = call(wds.apiserver_version()).await?;
    Ok(judge_version(&version.git_version, &version.minor))
}

fn judge_version(version: &str, minor: &str) -> Judgment {
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(minor) if minor < FIRST_WITH_POLICIES => Judgment::warning(
            format!(
                "Kubernetes {version} has no ValidatingAdmissionPolicies (they need \
                1.{FIRST_WITH_POLICIES} or later)"
            ),
            "upgrade the control cluster; until then nothing guards the hold while the webhook does not answer",
        ),
        _ => Judgment::ok(format!("Kubernetes {version} answers")),
    }
}

/// Compares the `Date` header of a response with the local time.
pub(super) async fn clock(wds: &Client) -> Judgment {
    let Ok(request) = Request::get("/version").body(Body::empty()) else {
        return Judgment::skipped("cannot build the request");
    };
    let sent = Timestamp::now();
    let answer = match call(wds.send(request)).await {
        Ok(answer) => answer,
        Err(failure) => return Judgment::unasked("read the clock of the API server", &failure),
    };
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    match date.and_then(|date| rfc2822::parse(date).ok()) {
        Some(date) => judge_clock(date.timestamp(), sent, Timestamp::now()),
        None => Judgment::skipped("the API server does not send its time"),
    }
}

/// Judges a `date` that the server sent, in whole seconds, between `sent` and `received`.
fn judge_clock(date: Timestamp, sent: Timestamp, received: Timestamp) -> Judgment {
    let second = SignedDuration::from_secs(1);
    let ahead = date.duration_since(received);
    let behind = sent.duration_since(date) - second;
    let apart = ahead.max(behind).max(SignedDuration::ZERO);
    let way = if ahead > behind { "ahead of" } else { "behind" };
    let seconds = apart.as_secs();
    let fix = "synchronize the clocks of both machines with NTP";
    if apart <= GOOD {
        Judgment::ok("the API server's clock agrees with the clock of this machine")
    } else if apart < BAD {
        Judgment::warning(
            format!("the API server's clock is {seconds} s {way} the clock of this machine"),
            fix,
        )
    } else {
        let message = format!(
            "the API server's clock is {seconds} s {way} the clock of this machine, so certificates and ages \
            are misjudged"
        );
        Judgment::failed(message, fix)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Outcome, *};

    #[test]
    fn a_server_without_admission_policies_is_told() {
        assert_eq!(
            judge_version("v1.34.4", "34").message,
            "Kubernetes v1.34.4 answers"
        );
        assert_eq!(judge_version("v1.29.1-eks", "29+").outcome, Outcome::Warning);
        assert_eq!(judge_version("odd", "").outcome, Outcome::Ok);
    }

    #[test]
    fn clocks_are_compared_with_regard_to_how_long_the_answer_took() {
        let at = |second: f64| {
            Timestamp::UNIX_EPOCH + SignedDuration::try_from_secs_f64(1_000_000.0 + second).unwrap()
        };
        for (date, sent, received, outcome, words) in [
            (0.0, 0.9, 0.95, Outcome::Ok, "agrees with"),
            (10.0, 0.0, 12.0, Outcome::Ok, "agrees with"),
            (0.0, 2.5, 2.6, Outcome::Ok, "agrees with"),
            (10.0, 0.0, 5.0, Outcome::Warning, "5 s ahead of"),
            (0.0, 11.0, 12.0, Outcome::Warning, "10 s behind"),
            (90.0, 0.0, 0.1, Outcome::Failed, "89 s ahead of"),
            (0.0, 3600.0, 3600.1, Outcome::Failed, "3599 s behind"),
        ] {
            let judgment = judge_clock(at(date), at(sent), at(received));
            assert_eq!(judgment.outcome, outcome, "{judgment:?}");
            assert!(judgment.message.contains(words), "{judgment:?}");
        }
    }

    #[test]
    fn the_date_of_an_answer_is_understood() {
        let date = rfc2822::parse("Sun, 22 Nov 2026 07:14:46 GMT").unwrap();
        assert_eq!(date.timestamp(), "2026-11-22T07:14:46Z".parse().unwrap());
    }
}
