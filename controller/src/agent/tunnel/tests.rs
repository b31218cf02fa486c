use axum::http::StatusCode;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

/// More than the first pause with its jitter, and less than any of the later ones.
const SHORT: Duration = Duration::from_millis(1_100);

#[test]
fn the_first_refusal_after_a_long_cut_is_followed_by_a_short_pause() {
    let mut pauses = Pauses::new();
    for _ in 0..20 {
        assert!(pauses.next(UNANSWERED) <= UNANSWERED);
    }
    assert!(pauses.next(REFUSED) < SHORT);
    for _ in 0..20 {
        pauses.next(REFUSED);
    }
    assert_eq!(pauses.next(REFUSED), REFUSED);
    pauses.begin_again();
    assert!(pauses.next(REFUSED) < SHORT);
}

/// A dialing end whose attempts are refused, and a message for each attempt.
fn refused() -> (Dialer, UnboundedReceiver<()>) {
    let (attempts, seen) = unbounded_channel();
    let refuse = move || {
        let attempts = attempts.clone();
        async move {
            let _ = attempts.send(());
            StatusCode::UNAUTHORIZED
        }
    };
    let dialer = Dialer {
        its: Client::new(Router::new().fallback(refuse), "default"),
        cluster: "cluster1".to_owned(),
        token: Token::generate().unwrap(),
        service: Router::new(),
        authority: None,
        renewed: Arc::default(),
    };
    (dialer, seen)
}

#[tokio::test]
async fn an_agent_that_was_refused_dials_at_once_when_its_lease_is_renewed() {
    let (dialer, mut attempts) = refused();
    let renewed = dialer.renewed.clone();
    let (_offers, offer) = watch::channel(Some("argosy/argosy-controller:webhook".to_owned()));
    let stop = CancellationToken::new();
    let dialing = tokio::spawn(dialer.run(offer, stop.clone()));
    // The pauses grow.
    for _ in 0..3 {
        attempts.recv().await.unwrap();
    }
    for _ in 0..100 {
        renewed.notify_one();
        // Without the renewal, the pause before a hundredth attempt is a minute.
        let attempt = timeout(Duration::from_secs(20), attempts.recv()).await;
        attempt.expect("it dials").unwrap();
    }
    stop.cancel();
    dialing.await.unwrap();
}

#[test]
fn an_offer_is_a_service_with_a_port() {
    assert_eq!(
        path_of("argosy/argosy-controller:webhook").as_deref(),
        Some("/api/v1/namespaces/argosy/services/https:argosy-controller:webhook/proxy/tunnel")
    );
    for bad in [
        "",
        "argosy",
        "argosy/argosy-controller",
        "argosy/:webhook",
        "/argosy-controller:webhook",
        "argosy/a:b/../../../secrets",
        "argosy/a%2f:webhook",
        "Argosy/a:webhook",
    ] {
        assert_eq!(place_of(bad), None, "{bad} was taken");
    }
}

#[test]
fn an_offer_is_a_url_with_tls_and_without_anything_but_a_place() {
    for (offer, server, path) in [
        (
            "https://argosy.example.org",
            "https://argosy.example.org/",
            "/tunnel",
        ),
        ("https://10.0.0.1:9443/", "https://10.0.0.1:9443/", "/tunnel"),
        (
            "https://example.org/argosy/",
            "https://example.org/",
            "/argosy/tunnel",
        ),
    ] {
        let expected = Place::Url(server.parse().unwrap(), path.to_owned());
        assert_eq!(place_of(offer), Some(expected), "{offer}");
    }
    for bad in [
        "http://example.org",
        "https://",
        "https://user:word@example.org",
        "https://example.org?next=https://other.example",
        "wss://example.org",
        "://example.org",
    ] {
        assert_eq!(place_of(bad), None, "{bad} was taken");
    }
}
