//! The connections to the server, behind a plain function call: callers are threads and know nothing of async.

use super::PostgresOptions;
use super::address;
use super::trouble::Fault;
use crate::error::{StoreError, Trouble};
use crate::journal::Result;
use crate::probe::Probe;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use std::time::Duration;

/// How long a thread waits for a free connection.
const WAIT: Duration = Duration::from_secs(30);
/// How long a new connection may take, names and certificates included.
const CREATE: Duration = Duration::from_secs(15);
/// When to give an answer up. Longer than the server's own limit for a statement, which says more.
const ANSWER: Duration = Duration::from_secs(45);
/// The threads that move bytes; the work is done by the callers' own.
const MOVERS: usize = 2;

/// What every connection is told first. A commit must be on the disk when it is acknowledged, whatever the server's
/// default; a statement may not hang; and a worker that was stopped in the middle may not hold rows for ever.
const FIRST: &str = "SET synchronous_commit = on; SET statement_timeout = 30000; \
    SET idle_in_transaction_session_timeout = 30000; SET default_transaction_isolation = 'read committed'; \
    SET default_transaction_deferrable = off; SET client_min_messages = warning; SET TIME ZONE 'UTC'";

/// The connections to one server.
pub(super) struct Link {
    shown: String,
    pool: Pool,
    /// `None` only while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
    /// Who is told of the places where a crash is interesting.
    pub(super) probe: Probe,
}

impl Link {
    /// Sets the connections up; none is made yet.
    pub(super) fn new(text: &str, options: PostgresOptions) -> Result<Self> {
        let server = address::parse(text)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(MOVERS)
            .thread_name("flyball-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::new(Trouble::Io, format!("cannot start threads: {error}")))?;
        let shown = address::shown(&server.config);
        let tls = address::guard(&server)?;
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(server.config, tls, how))
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CREATE))
            .recycle_timeout(Some(CREATE))
            .post_create(Hook::async_fn(|client: &mut ClientWrapper, _| {
                Box::pin(async move { client.batch_execute(FIRST).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| StoreError::new(Trouble::Io, format!("cannot set connections up: {error}")))?;
        Ok(Link { shown, pool, runtime: Some(runtime), probe: options.probe })
    }

    /// The address without user and password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Does a piece of work on one connection. After a failure the connection is thrown away, and with it any
    /// transaction that was open on it.
    pub(super) fn run<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        self.wait(async {
            let object = self.pool.get().await?;
            let answer =
                tokio::time::timeout(ANSWER, work(&object)).await.unwrap_or_else(|_| Err(Fault::Late));
            if answer.is_err() {
                drop(Object::take(object));
            }
            answer
        })
    }

    /// As [`Link::run`], for reading: if a connection turns out to be dead, another one is asked.
    pub(super) fn read<T>(
        &self,
        work: impl AsyncFn(&ClientWrapper) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        match self.run(&work) {
            Err(Fault::Sql(error)) if error.is_closed() => self.run(&work),
            answer => answer,
        }
        .map_err(Fault::undone)
    }

    /// As [`Link::run`], for a single statement that commits by itself.
    pub(super) fn write<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.run(work).map_err(Fault::written)
    }

    /// Does a long piece of work on a connection of its own, without a limit of time.
    pub(super) fn run_apart<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        self.wait(async {
            let client = Object::take(self.pool.get().await?);
            client.batch_execute("SET statement_timeout = 0").await?;
            work(&client).await
        })
    }

    fn wait<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> std::result::Result<T, Fault> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Fault::Store(StoreError::new(Trouble::Unreachable, "the store was closed"))),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.pool.close();
        if let Some(runtime) = self.runtime.take() {
            // Waits for nothing, so that it may be dropped anywhere.
            runtime.shutdown_background();
        }
    }
}
