//! The server of the tests: it answers while it is there, and leaves nothing behind.

use super::{Server, programs};
use std::net::TcpStream;

#[test]
fn a_server_answers_and_leaves_nothing_behind() {
    if programs().is_none() {
        println!("skipped: there is no PostgreSQL on this machine");
        return;
    }
    let server = Server::start().expect("it starts");
    let (folder, port) = (server.folder.clone(), server.port);
    assert!(server.url().contains(&port.to_string()));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!folder.exists());
}
