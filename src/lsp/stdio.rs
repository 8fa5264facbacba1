//! The connection over standard input and output. Neither direction ever makes the server wait for the editor.

use crossbeam_channel::unbounded;
use lsp_server::{Connection, Message};
use std::io::{ErrorKind, stdin, stdout};
use std::thread::{self, JoinHandle};

/// The connection, and the thread that writes, which ends when all senders are gone.
pub fn stdio() -> (Connection, JoinHandle<()>) {
    let (sender, outgoing) = unbounded::<Message>();
    let (incoming, receiver) = unbounded();
    let writer = thread::spawn(move || {
        let mut out = stdout().lock();
        // An editor that has gone away is noticed by the reader.
        while let Ok(message) = outgoing.recv() {
            if message.write(&mut out).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        let mut input = stdin().lock();
        loop {
            match Message::read(&mut input) {
                Ok(Some(message)) => {
                    let last = matches!(&message, Message::Notification(note) if note.method == "exit");
                    if incoming.send(message).is_err() || last {
                        break;
                    }
                }
                Ok(None) => break,
                // The header was sound and the body has been read: the next message begins where it should.
                Err(error) if is_payload(&error) => eprintln!("stepc lsp: {error}"),
                Err(error) => {
                    eprintln!("stepc lsp: {error}");
                    break;
                }
            }
        }
    });
    (Connection { sender, receiver }, writer)
}

fn is_payload(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::InvalidData && error.to_string().starts_with("malformed LSP payload")
}
