//! Sends requests of commands again if the API server asks for that: with status 429 and a `Retry-After`. It has not
//! executed such a request. It answers like this under load, and for about a second after a kind was defined, so that
//! `link` may meet it directly after `install`. kubectl sends these requests again too.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::{Instant, sleep};

use super::bounds::retry_after;

/// Maximum time for which all requests of a client wait together. So an API server that is overloaded does not hold up
/// a command for long.
const IN_ALL: Duration = Duration::from_secs(10);

/// How long the requests of a client may wait for an API server that asks them to.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Maximum time from the start of a request to the end of its last pause.
    each: Duration,
    /// What is left of [`IN_ALL`].
    left: Arc<Mutex<Duration>>,
}

impl Patience {
    /// For a client whose requests end within `deadline`. Half of it is for pauses, and the rest for the last try.
    pub fn of_commands(deadline: Duration) -> Self {
        Self {
            each: deadline / 2,
            left: Arc::new(Mutex::new(IN_ALL)),
        }
    }

    /// For a client that passes on each such answer. The controller has pauses of its own.
    pub fn none() -> Self {
        Self::of_commands(Duration::ZERO)
    }

    /// Sends a request, and sends it again as long as the API server asks for that and the patience lasts. Returns the
    /// last answer.
    pub async fn send<B, E, F>(
        &self,
        request: Request<Body>,
        send: impl Fn(Request<Body>) -> F,
    ) -> Result<Response<B>, E>
    where
        F: Future<Output = Result<Response<B>, E>>,
    {
        let until = Instant::now() + self.each;
        let (parts, body) = request.into_parts();
        while let Some(copy) = body.try_clone() {
            let answer = send(Request::from_parts(parts.clone(), copy)).await?;
            let Some(pause) = self.pause(&answer, until) else {
                return Ok(answer);
            };
            sleep(pause).await;
        }
        // A body that cannot be copied is a stream, which no request of ours has.
        send(Request::from_parts(parts, body)).await
    }

    /// The pause that an answer asks for, if it ends by then.
    fn pause<B>(&self, answer: &Response<B>, until: Instant) -> Option<Duration> {
        if answer.status() != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        let pause = Duration::from_secs(retry_after(answer)?.max(1).into());
        if Instant::now() + pause > until {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(pause)?;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::header;

    use super::*;

    /// Sends requests to a server that gives these answers in turn, and then the last one again and again. Returns the
    /// status of the last answer, the number of requests, and the seconds that they took.
    async fn sent(
        patience: &Patience,
        answers: &[(u16, Option<&str>)],
    ) -> (StatusCode, usize, u64) {
        let (count, started) = (AtomicUsize::new(0), Instant::now());
        let request = Request::post("/").body(Body::from(b"{}".to_vec())).unwrap();
        let answer = patience.send(request, async |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let (status, after) = answers[number.min(answers.len() - 1)];
            let mut answer = Response::builder().status(status);
            if let Some(after) = after {
                answer = answer.header(header::RETRY_AFTER, after);
            }
            Ok::<_, Infallible>(answer.body(()).unwrap())
        });
        let status = answer.await.unwrap().status();
        (status, count.into_inner(), started.elapsed().as_secs())
    }

    const BUSY: (u16, Option<&str>) = (429, Some("1"));
    const DONE: (u16, Option<&str>) = (201, None);

    #[tokio::test(start_paused = true)]
    async fn requests_are_sent_again_only_if_the_server_asks_for_that() {
        let cases = [
            ("not refused", vec![DONE], (201, 1, 0)),
            ("refused twice", vec![BUSY, BUSY, DONE], (201, 3, 2)),
            ("at once", vec![(429, Some("0")), DONE], (201, 2, 1)),
            ("without a time", vec![(429, None), DONE], (429, 1, 0)),
            (
                "at a date",
                vec![(429, Some("Fri, 27 Nov 2026")), DONE],
                (429, 1, 0),
            ),
            ("too late", vec![(429, Some("16")), DONE], (429, 1, 0)),
            ("never", vec![(429, Some("4000000000")), DONE], (429, 1, 0)),
            // It may have been executed.
            ("unavailable", vec![(503, Some("1")), DONE], (503, 1, 0)),
        ];
        for (what, answers, (status, count, seconds)) in cases {
            let patience = Patience::of_commands(Duration::from_secs(30));
            let (is, sent, took) = sent(&patience, &answers).await;
            assert_eq!(
                (is.as_u16(), sent, took),
                (status, count, seconds),
                "{what}"
            );
        }
        let (status, count, _) = sent(&Patience::none(), &[BUSY, DONE]).await;
        assert_eq!((status.as_u16(), count), (429, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_for_one_request_and_for_all_together() {
        let short = Patience::of_commands(Duration::from_secs(5));
        assert_eq!(sent(&short, &[BUSY]).await.2, 2);
        let patience = Patience::of_commands(Duration::from_secs(30));
        let took = [
            sent(&patience, &[BUSY]).await.2,
            sent(&patience, &[BUSY]).await.2,
        ];
        assert_eq!(took, [IN_ALL.as_secs(), 0]);
    }
}
