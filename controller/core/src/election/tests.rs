use super::*;

const TERMS: [u64; 3] = [15, 10, 2];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn candidate(identity: &str) -> Candidate {
    let [lease, deadline, retry] = TERMS.map(seconds);
    Candidate::new(
        identity,
        "argosy",
        "lease",
        Terms::new(lease, deadline, retry).unwrap(),
    )
}

/// A wall clock that stands still.
fn wall() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The API server's Lease. A write succeeds if it has the current version.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn write(&mut self, mut lease: Lease) -> Option<Lease> {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        if self.lease.as_ref().and_then(version) != version(&lease) {
            return None;
        }
        self.version += 1;
        lease
            .metadata
            .uid
            .get_or_insert_with(|| format!("uid{}", self.version));
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        Some(lease)
    }

    fn listed(&self) -> Change<Lease> {
        Change::Reset(self.lease.iter().cloned().collect())
    }
}

/// Lets `candidate` write if it decides to. Returns true if it did so and the write succeeded.
fn turn(candidate: &mut Candidate, server: &mut Server, now: u64) -> bool {
    let now = seconds(now);
    let Step::Write(lease) = candidate.decide(now, wall()) else {
        return false;
    };
    let written = server.write(*lease);
    let is_written = written.is_some();
    match written {
        Some(lease) => candidate.wrote(lease, now, now),
        None => candidate.failed(now),
    }
    is_written
}

fn see(candidate: &mut Candidate, server: &Server, now: u64) {
    candidate.learn(server.listed(), seconds(now));
}

/// Two candidates, the first of which leads since second 0.
fn pair() -> (Candidate, Candidate, Server) {
    let (mut a, mut b, mut server) = (candidate("a"), candidate("b"), Server::default());
    see(&mut a, &server, 0);
    assert!(turn(&mut a, &mut server, 0));
    see(&mut b, &server, 0);
    (a, b, server)
}

#[test]
fn each_duration_must_be_shorter_than_the_one_before() {
    for (lease, deadline, retry, is_good) in [
        (15, 10, 2, true),
        (3, 2, 1, true),
        (10, 10, 2, false),
        (15, 2, 2, false),
        (15, 10, 0, false),
    ] {
        let terms = Terms::new(seconds(lease), seconds(deadline), seconds(retry));
        assert_eq!(terms.is_ok(), is_good, "{lease} {deadline} {retry}");
    }
    let terms = Terms::new(seconds(15), seconds(10), seconds(2)).unwrap();
    assert_eq!(terms.answer_deadline(), Duration::from_millis(12_500));
}

#[test]
fn nothing_is_written_before_the_lease_was_listed() {
    let mut alone = candidate("a");
    assert_eq!(alone.decide(seconds(99), wall()), Step::Wait(None));
    see(&mut alone, &Server::default(), 99);
    assert!(matches!(alone.decide(seconds(99), wall()), Step::Write(_)));
}

#[test]
fn the_first_creates_the_lease_and_renews_it_every_retry_period() {
    let (mut a, _, mut server) = pair();
    assert_eq!(a.leads_until(), Some(seconds(10)));
    assert_eq!(a.decide(seconds(1), wall()), Step::Wait(Some(seconds(2))));
    assert!(turn(&mut a, &mut server, 2));
    assert_eq!(a.leads_until(), Some(seconds(12)));
    let spec = server.lease.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(0));
    assert!(spec.acquire_time.is_some() && spec.renew_time.is_some());
}

#[test]
fn a_follower_waits_for_as_long_as_it_has_not_seen_the_lease_change() {
    let (mut a, mut b, mut server) = pair();
    assert_eq!(b.decide(seconds(14), wall()), Step::Wait(Some(seconds(15))));
    assert!(turn(&mut a, &mut server, 9));
    see(&mut b, &server, 12);
    assert!(!turn(&mut b, &mut server, 26));
    assert!(turn(&mut b, &mut server, 27));
    let spec = server.lease.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("b"));
    assert_eq!(spec.lease_transitions, Some(1));
}

#[test]
fn what_is_told_again_prolongs_nothing() {
    let (_, mut b, server) = pair();
    see(&mut b, &server, 10);
    assert!(matches!(b.decide(seconds(15), wall()), Step::Write(_)));
}

#[test]
fn the_clock_of_the_wall_decides_nothing() {
    let (_, b, _) = pair();
    let far = "2036-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(b.decide(seconds(14), far), Step::Wait(Some(seconds(15))));
}

#[test]
fn who_cannot_renew_stops_leading_before_anybody_else_may() {
    let (mut a, b, _) = pair();
    for now in [2, 4, 6, 8] {
        assert!(matches!(a.decide(seconds(now), wall()), Step::Write(_)), "{now}");
        a.failed(seconds(now));
    }
    assert_eq!(a.decide(seconds(9), wall()), Step::Wait(Some(seconds(10))));
    assert_eq!(a.leads_until(), Some(seconds(10)));
    assert!(matches!(b.decide(seconds(14), wall()), Step::Wait(_)));
}

#[test]
fn who_renews_late_leads_again_if_nobody_led_in_between() {
    let (mut a, mut b, mut server) = pair();
    assert!(turn(&mut a, &mut server, 14));
    assert_eq!(a.leads_until(), Some(seconds(24)));
    see(&mut b, &server, 14);
    assert!(!turn(&mut b, &mut server, 28));
    assert!(turn(&mut b, &mut server, 29));
    assert!(!turn(&mut a, &mut server, 29));
    see(&mut a, &server, 29);
    assert_eq!(a.decide(seconds(29), wall()), Step::Lost);
}

#[test]
fn who_is_late_does_not_take_a_lease_that_another_may_have_held() {
    let (a, mut b, mut server) = pair();
    let mut never_told = a.clone();
    assert!(turn(&mut b, &mut server, 15));
    let released = b.release(wall()).unwrap();
    assert!(server.write(released).is_some());
    let mut released = a.clone();
    see(&mut released, &server, 16);
    assert_eq!(released.decide(seconds(16), wall()), Step::Lost);
    assert!(!turn(&mut never_told, &mut server, 16));
    let mut deleted = a;
    deleted.learn(Change::Reset(Vec::new()), seconds(16));
    assert_eq!(deleted.decide(seconds(16), wall()), Step::Lost);
}

#[test]
fn who_is_half_a_minute_late_does_not_lead_again() {
    let (mut a, _, _) = pair();
    assert!(matches!(a.decide(seconds(39), wall()), Step::Write(_)));
    a.failed(seconds(39));
    assert_eq!(a.decide(seconds(39), wall()), Step::Wait(Some(seconds(40))));
    assert_eq!(a.decide(seconds(40), wall()), Step::Lost);
}

#[test]
fn a_renewal_counts_from_its_beginning() {
    let (mut a, _, mut server) = pair();
    let Step::Write(lease) = a.decide(seconds(2), wall()) else {
        panic!("it renews");
    };
    let written = server.write(*lease).unwrap();
    a.wrote(written, seconds(2), seconds(7));
    assert_eq!(a.leads_until(), Some(seconds(12)));
}

#[test]
fn who_sees_another_holder_leads_no_longer() {
    let (mut a, mut b, mut server) = pair();
    assert!(turn(&mut b, &mut server, 15));
    see(&mut a, &server, 5);
    assert_eq!(a.decide(seconds(5), wall()), Step::Lost);
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let (a, mut b, mut server) = pair();
    let released = a.release(wall()).unwrap();
    assert!(server.write(released).is_some());
    see(&mut b, &server, 3);
    assert!(turn(&mut b, &mut server, 3));
    assert_eq!(server.lease.unwrap().spec.unwrap().lease_transitions, Some(1));
}

#[test]
fn only_who_leads_gives_the_lease_back() {
    let (mut a, mut b, mut server) = pair();
    assert_eq!(b.release(wall()), None);
    assert!(turn(&mut b, &mut server, 15));
    see(&mut a, &server, 15);
    assert_eq!(a.release(wall()), None);
}

#[test]
fn two_that_try_at_once_do_not_both_lead() {
    let (mut a, mut b, mut server) = (candidate("a"), candidate("b"), Server::default());
    for one in [&mut a, &mut b] {
        see(one, &server, 0);
    }
    assert!(turn(&mut a, &mut server, 0));
    assert!(!turn(&mut b, &mut server, 0));
    assert_eq!(b.leads_until(), None);
    assert_eq!(b.decide(seconds(1), wall()), Step::Wait(Some(seconds(2))));
    see(&mut b, &server, 1);
    assert_eq!(b.decide(seconds(15), wall()), Step::Wait(Some(seconds(16))));
}

#[test]
fn a_process_that_comes_back_under_its_name_leads_at_once() {
    let (_, _, mut server) = pair();
    let mut again = candidate("a");
    see(&mut again, &server, 0);
    assert!(turn(&mut again, &mut server, 0));
    assert_eq!(server.lease.unwrap().spec.unwrap().lease_transitions, Some(0));
}

#[test]
fn a_lease_that_somebody_deletes_is_put_back_by_who_leads() {
    let (mut a, mut b, mut server) = pair();
    let former = server.lease.take().unwrap();
    for one in [&mut a, &mut b] {
        one.learn(Change::Delete(Box::new(former.clone())), seconds(1));
    }
    assert_eq!(b.decide(seconds(1), wall()), Step::Wait(Some(seconds(15))));
    assert!(turn(&mut a, &mut server, 1));
    // The watch reports the deletion after the response.
    a.learn(Change::Delete(Box::new(former)), seconds(1));
    assert_eq!(a.holder(), Some("a"));
}

#[test]
fn an_older_version_than_the_answer_changes_nothing() {
    let (mut a, _, mut server) = pair();
    let first = server.lease.clone().unwrap();
    assert!(turn(&mut a, &mut server, 2));
    a.learn(Change::Apply(Box::new(first)), seconds(2));
    let Step::Write(lease) = a.decide(seconds(4), wall()) else {
        panic!("it renews");
    };
    assert_eq!(lease.metadata.resource_version.as_deref(), Some("2"));
}

#[test]
fn a_lease_lasts_as_long_as_its_holder_says() {
    let (_, mut b, mut server) = pair();
    let mut longer = server.lease.clone().unwrap();
    longer.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    assert!(server.write(longer).is_some());
    see(&mut b, &server, 1);
    assert_eq!(b.decide(seconds(16), wall()), Step::Wait(Some(seconds(61))));
}

/// Random sequences of renewals, failures, takeovers and releases over a minute: two candidates
/// never lead at once, and none leads again after another one has led. Nobody deletes the Lease.
#[test]
fn no_two_lead_at_once_and_none_leads_again_after_another_whatever_fails() {
    let mut late = 0;
    for seed in 0..4_000u64 {
        let mut dice = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut roll = |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        // One in four is an API server that seldom answers.
        let failures = if seed % 4 == 0 { 8 } else { 1 };
        let (mut a, mut b, mut server) = pair();
        let mut last = 0;
        for now in 1..60 {
            for (number, one) in [&mut a, &mut b].into_iter().enumerate() {
                if roll(3) == 0 {
                    see(one, &server, now);
                }
                if roll(4 + failures) < failures {
                    one.failed(seconds(now));
                    continue;
                }
                let led_until = one.leads_until();
                if turn(one, &mut server, now) {
                    assert!(
                        led_until.is_none() || last == number,
                        "{number} leads again at {now} with seed {seed}"
                    );
                    late += usize::from(led_until.is_some_and(|end| seconds(now) >= end));
                    last = number;
                }
                if roll(30) == 0 && one.leads_until().is_some_and(|end| seconds(now) < end) {
                    // It writes no more after its release.
                    if let Some(released) = one.release(wall()) {
                        server.write(released);
                        *one = candidate(["a", "b"][number]);
                    }
                }
            }
            let leads = |one: &Candidate| one.leads_until().is_some_and(|end| seconds(now) < end);
            assert!(!(leads(&a) && leads(&b)), "both lead at {now} with seed {seed}");
        }
    }
    assert!(late > 100, "only {late} were late and led again");
}
