//! The events of a watch, and the way in which its list is read: as events (a streaming list), or by
//! pages if that does not work.
//!
//! Pages are safe with every API server. A streaming list may be refused, with a status or with an
//! event; an API server that knows the parameter may still never say that the list is complete; and
//! `kube` skips an event that it cannot parse. Not here: the configuration of a watch, and what becomes
//! of its events.

use std::{fmt::Debug, time::Duration};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, InitialListStrategy, watcher},
    },
};
use tokio::time::Instant;

use super::reconnect_policy;
use crate::runtime::{
    client::{LARGE_PAGE, SMALL_PAGE, is_too_long},
    lenient::Unfailing,
};

/// Codes of answers that say nothing about streaming lists: the account or the kind, a version that
/// has expired, or an API server that is overloaded or starts.
const OTHER_REASONS: [u16; 6] = [401, 403, 404, 410, 429, 503];

/// The code of the answer of an API server whose cache is late.
const LATE: u16 = 504;

/// A list that is cut off after so long counts as one without its end: the client ends a connection on
/// which nothing comes for two minutes.
const LONG: Duration = Duration::from_mins(1);

/// A list that has lasted so long without its end is not begun a second time.
const PATIENCE: Duration = Duration::from_mins(4);

/// The events of a watch, which never end.
pub(super) fn events<T>(api: Api<T>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<T>>>
where
    T: Unfailing + Clone + Debug + Send + 'static,
{
    let watched = move |list: &InitialList| {
        watcher(api.clone(), list.config.clone())
            .backoff(reconnect_policy())
            .boxed()
    };
    let list = InitialList::of(config.page_size(LARGE_PAGE));
    stream::unfold(
        (watched(&list), list, watched),
        |(mut events, mut list, watched)| async move {
            let event = loop {
                let event = events.next().await?;
                if !list.is_to_be_read_differently(&event, Instant::now()) {
                    break event;
                }
                events = watched(&list);
            };
            Some((event, (events, list, watched)))
        },
    )
}

/// How a watch reads its lists, and how far it is.
struct InitialList {
    config: watcher::Config,
    /// The list is not complete.
    is_pending: bool,
    /// When the list began; `None` if it is complete, or if there was an error since.
    began: Option<Instant>,
    /// Lists in a row that ended without their end.
    unfinished: u32,
}

impl InitialList {
    fn of(config: watcher::Config) -> Self {
        Self {
            config,
            is_pending: true,
            began: None,
            unfinished: 0,
        }
    }

    /// Records an event. Returns true if the list has to begin anew, with another configuration: by
    /// pages instead of events, or by small pages if a page has more bytes than there is memory for.
    /// It stays with that, until the watch ends.
    fn is_to_be_read_differently<T>(&mut self, event: &watcher::Result<Event<T>>, now: Instant) -> bool {
        let has_failed = self.fails(event, now);
        if has_failed && self.config.initial_list_strategy == InitialListStrategy::StreamingList {
            tracing::info!("the API server sends no streaming list; it is asked for pages");
            self.config.initial_list_strategy = InitialListStrategy::ListWatch;
            self.began = None;
            return true;
        }
        let is_large = self.config.page_size > Some(SMALL_PAGE);
        let is_too_long = is_large && event.as_ref().is_err_and(|error| is_too_long(error));
        if is_too_long {
            self.config.page_size = Some(SMALL_PAGE);
        }
        is_too_long
    }

    /// Records an event. Returns true if the streaming list has failed, so that another one would, too.
    fn fails<T>(&mut self, event: &watcher::Result<Event<T>>, now: Instant) -> bool {
        match event {
            Ok(Event::Init) => {
                self.is_pending = true;
                // `kube` takes a connection that is closed for the end of the events.
                let former = self.began.replace(now);
                former.is_some_and(|began| self.is_given_up(now - began))
            }
            Ok(Event::InitDone) => {
                (self.is_pending, self.began, self.unfinished) = (false, None, 0);
                false
            }
            Ok(_) => false,
            Err(error) => {
                let lasted = self.began.take().map(|began| now - began);
                let was_pending = self.is_pending;
                // It lists anew without another event, and the API server may have been replaced.
                self.is_pending |= is_listed_anew_after(error);
                was_pending
                    && match code_of(error) {
                        Code::Unknown => lasted
                            .filter(|lasted| *lasted >= LONG)
                            .is_some_and(|lasted| self.is_given_up(lasted)),
                        Code::Is(LATE) => self.is_given_up(Duration::ZERO),
                        Code::Is(code) => !OTHER_REASONS.contains(&code),
                        Code::Unreadable => true,
                    }
            }
        }
    }

    /// Records a list that began and ended without its end. The first one may have been cut off.
    fn is_given_up(&mut self, lasted: Duration) -> bool {
        self.unfinished += 1;
        self.unfinished > 1 || lasted >= PATIENCE
    }
}

/// Returns true if `kube` goes on with a list after the error, and not with the same watch.
fn is_listed_anew_after(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::NoResourceVersion => true,
        _ => false,
    }
}

/// The part of an error that tells about streaming lists.
enum Code {
    /// That of the API server's answer.
    Is(u16),
    /// There is an answer without one, which cannot be read.
    Unreadable,
    /// There is no answer.
    Unknown,
}

fn code_of(error: &watcher::Error) -> Code {
    match error {
        watcher::Error::WatchError(status) => Code::Is(status.code),
        watcher::Error::NoResourceVersion => Code::Unreadable,
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => match cause {
            kube::Error::Api(status) => Code::Is(status.code),
            kube::Error::SerdeError(_) | kube::Error::LinesCodecMaxLineLengthExceeded => Code::Unreadable,
            _ => Code::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;

    use super::*;

    type Told = watcher::Result<Event<ConfigMap>>;

    fn status(code: u16) -> Box<Status> {
        Status::failure("no", "No").with_code(code).boxed()
    }

    fn refused(code: u16) -> Told {
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(status(code))))
    }

    fn event_of_error(code: u16) -> Told {
        Err(watcher::Error::WatchError(status(code)))
    }

    fn unreadable() -> Told {
        let error = serde_json::from_str::<()>("x").unwrap_err();
        Err(watcher::Error::WatchFailed(kube::Error::SerdeError(error)))
    }

    fn cut() -> Told {
        let error = kube::Error::ReadEvents(io::Error::other("cut"));
        Err(watcher::Error::WatchFailed(error))
    }

    fn init() -> Event<ConfigMap> {
        Event::Init
    }

    fn one() -> Event<ConfigMap> {
        Event::InitApply(ConfigMap::default())
    }

    fn done() -> Event<ConfigMap> {
        Event::InitDone
    }

    /// Returns true if the last one of these events, `apart` from each other, ends the streaming list,
    /// and only that one.
    fn ends(events: &[Told], apart: Duration) -> bool {
        let mut list = InitialList::of(watcher::Config::default().streaming_lists());
        let mut now = Instant::now();
        let told = events.iter().map(|event| {
            now += apart;
            list.is_to_be_read_differently(event, now)
        });
        let told: Vec<bool> = told.collect();
        let (end, before) = told.split_last().unwrap();
        assert!(before.iter().all(|differently| !differently));
        *end
    }

    const AT_ONCE: Duration = Duration::from_secs(1);

    #[test]
    fn a_streaming_list_that_is_refused_broken_or_never_complete_is_read_by_pages() {
        for (case, events) in [
            ("an API server without streaming lists", vec![refused(422)]),
            ("one whose etcd cannot", vec![Ok(init()), event_of_error(500)]),
            (
                "one whose cache is late twice",
                vec![Ok(init()), event_of_error(504), Ok(init()), event_of_error(504)],
            ),
            ("a lost event", vec![Ok(init()), Ok(one()), unreadable()]),
            (
                "two ends without the end",
                vec![Ok(init()), Ok(one()), Ok(init()), Ok(one()), Ok(init())],
            ),
            (
                "the same later",
                vec![
                    Ok(init()),
                    Ok(done()),
                    Ok(init()),
                    Ok(init()),
                    Ok(one()),
                    Ok(init()),
                ],
            ),
            (
                "another API server after an expired version",
                vec![
                    Ok(init()),
                    Ok(one()),
                    Ok(done()),
                    event_of_error(410),
                    refused(422),
                ],
            ),
            (
                "another one after an object without a version",
                vec![
                    Ok(init()),
                    Ok(done()),
                    Err(watcher::Error::NoResourceVersion),
                    refused(422),
                ],
            ),
        ] {
            assert!(ends(&events, AT_ONCE), "{case}");
        }
    }

    #[test]
    fn a_streaming_list_that_has_lasted_for_minutes_is_not_begun_a_second_time() {
        assert!(ends(&[Ok(init()), Ok(init())], PATIENCE));
    }

    #[test]
    fn a_streaming_list_on_which_nothing_comes_is_read_by_pages_after_the_second_one() {
        let silent = [Ok(init()), cut(), Ok(init()), cut()];
        assert!(ends(&silent, Duration::from_mins(2)));
    }

    #[test]
    fn a_streaming_list_goes_on_after_what_pages_would_fail_for_too() {
        for (case, events) in [
            ("no rights", vec![refused(403)]),
            ("no such kind", vec![refused(404)]),
            ("an API server that starts", vec![refused(503)]),
            (
                "an expired version",
                vec![Ok(init()), Ok(one()), event_of_error(410)],
            ),
            ("a cut", vec![Ok(init()), Ok(one()), cut()]),
            (
                "a new list after a cut",
                vec![Ok(init()), Ok(one()), cut(), Ok(init())],
            ),
            (
                "an error after the list",
                vec![Ok(init()), Ok(one()), Ok(done()), event_of_error(500)],
            ),
            ("a new list", vec![Ok(init()), Ok(one()), Ok(done()), Ok(init())]),
            (
                "a connection that is closed",
                vec![Ok(init()), Ok(one()), Ok(init())],
            ),
            (
                "one that is closed, and later another",
                vec![Ok(init()), Ok(init()), Ok(done()), Ok(init()), Ok(init())],
            ),
            ("a cache that is late", vec![Ok(init()), event_of_error(504)]),
            (
                "an API server that starts after an expired version",
                vec![Ok(init()), Ok(done()), event_of_error(410), refused(503)],
            ),
            (
                "a watch that is refused",
                vec![Ok(init()), Ok(done()), refused(422)],
            ),
        ] {
            assert!(!ends(&events, AT_ONCE), "{case}");
        }
    }

    #[test]
    fn pages_stay_pages() {
        let mut list = InitialList::of(watcher::Config::default().page_size(LARGE_PAGE));
        let events = [
            Ok(init()),
            Ok(init()),
            event_of_error(500),
            unreadable(),
            refused(422),
        ];
        let now = Instant::now();
        assert!(
            events
                .iter()
                .all(|event| !list.is_to_be_read_differently(event, now))
        );
    }
}
