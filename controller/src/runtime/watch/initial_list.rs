//! The events of a watch, and the way in which its list is read: as events (a streaming list), or by
//! pages if that does not work.
//!
//! Pages are safe with every API server. A streaming list may be refused, with a status or with an
//! event; an API server that knows the parameter may still never say that the list is complete; and
//! `kube` skips an event that it cannot parse. Not here: the configuration of a watch, and what becomes
//! of its events.

use std::fmt::Debug;

use futures::{Stream, StreamExt, stream};
use kube::{
    Api,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, InitialListStrategy, watcher},
    },
};

use super::reconnect_policy;
use crate::runtime::{
    client::{LARGE_PAGE, SMALL_PAGE, is_too_long},
    lenient::Unfailing,
};

/// Codes of answers that say nothing about streaming lists: the account or the kind, a version that
/// has expired, or an API server that is overloaded or starts.
const OTHER_REASONS: [u16; 6] = [401, 403, 404, 410, 429, 503];

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
                if !list.is_to_be_read_differently(&event) {
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
    /// The list has begun, and there was no error since.
    is_under_way: bool,
}

impl InitialList {
    fn of(config: watcher::Config) -> Self {
        Self {
            config,
            is_pending: true,
            is_under_way: false,
        }
    }

    /// Records an event. Returns true if the list has to begin anew, with another configuration: by
    /// pages instead of events, or by small pages if a page has more bytes than there is memory for.
    /// It stays with that, until the watch ends.
    fn is_to_be_read_differently<T>(&mut self, event: &watcher::Result<Event<T>>) -> bool {
        let was_under_way = self.is_under_way;
        match event {
            Ok(Event::Init) => (self.is_pending, self.is_under_way) = (true, true),
            Ok(Event::InitDone) => (self.is_pending, self.is_under_way) = (false, false),
            Ok(_) => {}
            Err(_) => self.is_under_way = false,
        }
        let is_streaming = self.config.initial_list_strategy == InitialListStrategy::StreamingList;
        let has_failed = match event {
            // It began and ended without its end or an error.
            Ok(Event::Init) => was_under_way,
            Ok(_) => false,
            Err(error) => self.is_pending && !has_other_reason(error),
        };
        if is_streaming && has_failed {
            tracing::info!("the API server sends no streaming list; it is asked for pages");
            self.config.initial_list_strategy = InitialListStrategy::ListWatch;
            self.is_under_way = false;
            return true;
        }
        let is_large = self.config.page_size > Some(SMALL_PAGE);
        let is_too_long = is_large && event.as_ref().is_err_and(|error| is_too_long(error));
        if is_too_long {
            self.config.page_size = Some(SMALL_PAGE);
        }
        is_too_long
    }
}

/// Returns true if a list failed for a reason that its pages would fail for, too.
fn has_other_reason(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::WatchError(status) => status,
        watcher::Error::NoResourceVersion => return false,
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => match cause {
            kube::Error::Api(status) => status,
            kube::Error::SerdeError(_) | kube::Error::LinesCodecMaxLineLengthExceeded => return false,
            // The connection.
            _ => return true,
        },
    };
    OTHER_REASONS.contains(&status.code)
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

    /// Returns true if the last one of these events, and only that one, ends the streaming list.
    fn ends(events: &[Told]) -> bool {
        let mut list = InitialList::of(watcher::Config::default().streaming_lists());
        let (end, before) = events.split_last().unwrap();
        assert!(before.iter().all(|event| !list.is_to_be_read_differently(event)));
        list.is_to_be_read_differently(end)
    }

    #[test]
    fn a_streaming_list_that_is_refused_broken_or_never_complete_is_read_by_pages() {
        for (case, events) in [
            ("an API server without streaming lists", vec![refused(422)]),
            ("one whose etcd cannot", vec![Ok(init()), event_of_error(500)]),
            ("one whose cache is late", vec![Ok(init()), event_of_error(504)]),
            ("a lost event", vec![Ok(init()), Ok(one()), unreadable()]),
            ("an end without the end", vec![Ok(init()), Ok(one()), Ok(init())]),
            (
                "the same later",
                vec![Ok(init()), Ok(done()), Ok(init()), Ok(one()), Ok(init())],
            ),
        ] {
            assert!(ends(&events), "{case}");
        }
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
        ] {
            assert!(!ends(&events), "{case}");
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
        assert!(events.iter().all(|event| !list.is_to_be_read_differently(event)));
    }
}
