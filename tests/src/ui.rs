//! The real Argo UI in a real browser: headless Chromium, driven over WebDriver.
//!
//! Owns the browser and the waits for elements.
//!
//! Not here: the expected content of a page, which the tests define.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use fantoccini::{Client, ClientBuilder, Locator, elements::Element};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::fleet::{Fleet, until};

const START: Duration = Duration::from_mins(1);
const CALL: Duration = Duration::from_secs(30);

/// Without the arguments about networking, Chromium contacts Google's servers at every start.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A browser that shows the Argo UI of a fleet's control cluster.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    url: reqwest::Url,
    screenshots: PathBuf,
}

impl Browser {
    /// Opens a browser, runs `visit` with it, and always closes it. If the visit fails, a
    /// screenshot `failed-NAME.png` shows the page.
    pub async fn visit(
        fleet: &Fleet,
        name: &str,
        visit: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let screenshots = fleet.folder.join("screenshots");
        fs::create_dir_all(&screenshots).with_context(|| format!("{}", screenshots.display()))?;
        let (mut driver, address) = start_driver([0; 10]).await?;
        let client = timeout(START, connect(&address))
            .await
            .context("Chromium has not started in time")??;
        let browser = Self {
            client,
            url: fleet.argo_server.url.clone(),
            screenshots,
        };
        let outcome = visit(&browser).await;
        if outcome.is_err() {
            // The visit's own error matters more than one of the screenshot.
            let _ = browser.screenshot(&format!("failed-{name}")).await;
        }
        let closed = timeout(CALL, browser.client.close()).await;
        driver.kill().await?;
        outcome?;
        closed.context("the browser does not close")??;
        Ok(())
    }

    /// Opens a page of the UI, such as `workflows/argo`.
    pub async fn open(&self, path: &str) -> Result<()> {
        let url = self.url.join(path)?;
        timeout(CALL, self.client.goto(url.as_str()))
            .await
            .with_context(|| format!("{url} does not load"))??;
        Ok(())
    }

    /// Waits until elements match the selector and `is_wanted` returns true for their texts.
    /// Returns the texts.
    pub async fn texts(
        &self,
        selector: &str,
        limit: Duration,
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        let found = until(
            limit,
            &format!("the page to show what is wanted in {selector}"),
            async || {
                seen = self.texts_now(selector).await?;
                Ok(is_wanted(&seen).then_some(()))
            },
        )
        .await;
        found.with_context(|| format!("it shows {seen:?}"))?;
        Ok(seen)
    }

    /// The texts of the elements that match the selector now.
    pub async fn texts_now(&self, selector: &str) -> Result<Vec<String>> {
        let script = "return Array.from(document.querySelectorAll(arguments[0]))
            .map(element => (element.innerText ?? element.textContent).replace(/\\s+/g, ' ').trim())";
        let texts = self.client.execute(script, vec![json!(selector)]);
        let texts: Value = timeout(CALL, texts)
            .await
            .context("the browser does not answer")??;
        Ok(serde_json::from_value(texts)?)
    }

    /// Waits until `is_wanted` returns true for the number of elements that match the selector.
    pub async fn count(
        &self,
        selector: &str,
        limit: Duration,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<()> {
        self.texts(selector, limit, |texts| is_wanted(texts.len()))
            .await
            .map(|_| ())
    }

    /// Waits for an element that the XPath expression finds.
    pub async fn has(&self, path: &str, limit: Duration) -> Result<()> {
        let found = self
            .client
            .wait()
            .at_most(limit)
            .for_element(Locator::XPath(path))
            .await;
        found.map(|_| ()).with_context(|| format!("there is no {path}"))
    }

    /// Waits for an element and clicks it.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let element: Element = self
            .client
            .wait()
            .at_most(CALL)
            .for_element(Locator::Css(selector))
            .await
            .with_context(|| format!("there is no {selector}"))?;
        timeout(CALL, element.click())
            .await
            .with_context(|| format!("{selector} cannot be clicked"))??;
        Ok(())
    }

    /// Saves a screenshot as `screenshots/NAME.png` in the fleet's folder.
    pub async fn screenshot(&self, name: &str) -> Result<()> {
        let picture = timeout(CALL, self.client.screenshot())
            .await
            .context("no screenshot in time")??;
        let file = self.screenshots.join(format!("{name}.png"));
        fs::write(&file, picture).with_context(|| format!("{}", file.display()))
    }
}

/// Starts the driver on the first of the ports that it can have (0: any free one) and returns its
/// address. With 0, chromedriver takes a port that is free for IPv6, and ends if a connection over
/// IPv4 has the same one.
async fn start_driver(ports: impl IntoIterator<Item = u16>) -> Result<(Child, String)> {
    let mut ended = String::new();
    for port in ports {
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("chromedriver cannot be started; install the packages chromium and chromium-driver")?;
        let output = driver.stdout.take().context("no output of chromedriver")?;
        let listening = timeout(START, listening_port(output, &mut ended)).await;
        if let Some(port) = listening.context("chromedriver has not started in time")?? {
            return Ok((driver, format!("http://127.0.0.1:{port}")));
        }
    }
    bail!("chromedriver ended without a port: {ended}")
}

/// The port of a driver that has started; without one, the driver has ended and its output is in
/// `ended`.
async fn listening_port(output: ChildStdout, ended: &mut String) -> Result<Option<String>> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, port)) = line.rsplit_once("started successfully on port ") {
            return Ok(Some(port.trim_end_matches('.').to_owned()));
        }
        ended.push_str(&line);
        ended.push('\n');
    }
    Ok(None)
}

async fn connect(driver: &str) -> Result<Client> {
    let options = json!({ "args": ARGUMENTS.iter().chain(&["--window-size=1600,1100"]).collect::<Vec<_>>() });
    let Value::Object(capabilities) = json!({ "browserName": "chrome", "goog:chromeOptions": options })
    else {
        bail!("capabilities are an object");
    };
    let mut builder = ClientBuilder::new(HttpConnector::new());
    let client = builder
        .capabilities(capabilities)
        .connect(driver)
        .await
        .context("no browser session")?;
    ensure!(
        client.session_id().await?.is_some(),
        "the browser session has no id"
    );
    Ok(client)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_driver_whose_port_is_taken_starts_on_another_one() -> Result<()> {
        let taken = TcpListener::bind("127.0.0.1:0").await?;
        let port = taken.local_addr()?.port();
        let (mut driver, address) = start_driver([port, 0]).await?;
        driver.kill().await?;
        ensure!(address != format!("http://127.0.0.1:{port}"), "{address}");
        let Err(refused) = start_driver([port]).await else {
            bail!("a driver has started on a port that is taken");
        };
        ensure!(refused.to_string().contains("port not available"), "{refused}");
        Ok(())
    }
}
