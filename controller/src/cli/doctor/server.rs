//! The control cluster's API server: whether it answers, and whether its clock goes as ours.

use argosy_core::Failure;
use axum::http::{Request, header::DATE};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};

use super::finding::Judgement;
use crate::outcome::call;

/// The first minor version of Kubernetes with ValidatingAdmissionPolicies.
const FIRST_WITH_POLICIES: u32 = 30;

/// Clocks that differ by less are well kept.
const GOOD: SignedDuration = SignedDuration::from_secs(2);

/// From here on, what has just been written looks as if it were old, and certificates as if they were not good yet.
const BAD: SignedDuration = SignedDuration::from_mins(1);

/// Asks for its version.
pub(super) async fn answers(wds: &Client) -> Result<Judgement, Failure> {
    let version = call(wds.apiserver_version()).await?;
    Ok(judge_version(&version.git_version, &version.minor))
}

fn judge_version(version: &str, minor: &str) -> Judgement {
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(minor) if minor < FIRST_WITH_POLICIES => Judgement::warning(
            format!("Kubernetes {version} has no ValidatingAdmissionPolicies (1.{FIRST_WITH_POLICIES} has)"),
            "upgrade the control cluster; until then nothing guards the hold while the webhook does not answer",
        ),
        _ => Judgement::ok(format!("Kubernetes {version} answers")),
    }
}

/// Compares the `Date` of an answer with our own time.
pub(super) async fn clock(wds: &Client) -> Judgement {
    let Ok(request) = Request::get("/version").body(Body::empty()) else {
        return Judgement::skipped("no request can be made");
    };
    let sent = Timestamp::now();
    let answer = match call(wds.send(request)).await {
        Ok(answer) => answer,
        Err(failure) => return Judgement::unasked("read the clock of the API server", &failure),
    };
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    match date.and_then(|date| rfc2822::parse(date).ok()) {
        Some(date) => judge_clock(date.timestamp(), sent, Timestamp::now()),
        None => Judgement::skipped("the API server does not tell its time"),
    }
}

/// `date` was told, in whole seconds, between `sent` and `received`.
fn judge_clock(date: Timestamp, sent: Timestamp, received: Timestamp) -> Judgement {
    let second = SignedDuration::from_secs(1);
    let ahead = date.duration_since(received);
    let behind = sent.duration_since(date) - second;
    let apart = ahead.max(behind).max(SignedDuration::ZERO);
    let way = if ahead > behind { "ahead of" } else { "behind" };
    let seconds = apart.as_secs();
    let mend = "let both machines set their clocks by NTP";
    if apart <= GOOD {
        Judgement::ok("the API server's clock goes as the one here")
    } else if apart < BAD {
        Judgement::warning(
            format!("the API server's clock is {seconds} s {way} the one here"),
            mend,
        )
    } else {
        let message = format!(
            "the API server's clock is {seconds} s {way} the one here; certificates and ages will be misjudged"
        );
        Judgement::failed(message, mend)
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
            (0.0, 0.9, 0.95, Outcome::Ok, "as the one here"),
            (10.0, 0.0, 12.0, Outcome::Ok, "as the one here"),
            (0.0, 2.5, 2.6, Outcome::Ok, "as the one here"),
            (10.0, 0.0, 5.0, Outcome::Warning, "5 s ahead of"),
            (0.0, 11.0, 12.0, Outcome::Warning, "10 s behind"),
            (90.0, 0.0, 0.1, Outcome::Failed, "89 s ahead of"),
            (0.0, 3600.0, 3600.1, Outcome::Failed, "3599 s behind"),
        ] {
            let judgement = judge_clock(at(date), at(sent), at(received));
            assert_eq!(judgement.outcome, outcome, "{judgement:?}");
            assert!(judgement.message.contains(words), "{judgement:?}");
        }
    }

    #[test]
    fn the_date_of_an_answer_is_understood() {
        let date = rfc2822::parse("Sun, 22 Nov 2026 07:14:46 GMT").unwrap();
        assert_eq!(date.timestamp(), "2026-11-22T07:14:46Z".parse().unwrap());
    }
}
