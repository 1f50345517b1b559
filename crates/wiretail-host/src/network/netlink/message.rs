//! Encoding of netlink messages: writes requests with nested attributes, and parses replies.
//!
//! Layout according to rtnetlink(7): a 16-byte header, a fixed part that depends on the message type, and
//! attributes `{length: u16, kind: u16, value}` padded to four bytes. All numbers are in native byte order.

use std::io;

use libc::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};

/// Length of the header: length, kind, flags, sequence number, sender.
pub const HEADER_LEN: usize = 16;

const ERROR: u16 = NLMSG_ERROR as u16;
const DONE: u16 = NLMSG_DONE as u16;
/// Request a reply even on success.
pub const ACK: u16 = NLM_F_ACK as u16;
/// Create the object; fail if it exists.
pub const CREATE: u16 = (NLM_F_CREATE | NLM_F_EXCL) as u16;
/// List all objects of the type.
pub const DUMP: u16 = NLM_F_DUMP as u16;

/// A request under construction.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Starts a request of type `kind` (`RTM_…`) with its fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        // `finish` fills in the length and the sequence number.
        let mut message = Message { bytes: vec![0; HEADER_LEN] };
        message.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.bytes[6..8].copy_from_slice(&(NLM_F_REQUEST as u16 | flags).to_ne_bytes());
        message.raw(fixed);
        message
    }

    /// Appends bytes outside of an attribute, padded to four bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Appends an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.nest(kind, |inner| {
            inner.bytes.extend_from_slice(value);
        })
    }

    /// Appends a name with the terminating NUL byte that netlink requires.
    pub fn name(&mut self, kind: u16, name: &str) -> &mut Self {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.attribute(kind, &value)
    }

    /// Appends an attribute whose value is written by `fill`, usually as nested attributes.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(self);
        let len = u16::try_from(self.bytes.len() - start).expect("an attribute is shorter than 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.raw(&[])
    }

    /// Completes the request with its length and `sequence`.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = u32::try_from(self.bytes.len()).expect("a request is short");
        self.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// One message of a reply.
#[derive(Debug)]
pub enum Answer<'a> {
    /// `NLMSG_ERROR` with code zero, or `NLMSG_DONE`.
    Finished,
    /// `NLMSG_ERROR`, or `NLMSG_DONE` at the end of a list that was cut off.
    Failed(io::Error),
    /// An object: its type, and all bytes after the header.
    Object(u16, &'a [u8]),
}

/// The messages in a received datagram that reply to `sequence`.
pub fn answers(datagram: &[u8], sequence: u32) -> Vec<Answer<'_>> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while rest.len() >= HEADER_LEN {
        let len = u32_at(rest, 0).unwrap_or_default() as usize;
        if len < HEADER_LEN || len > rest.len() {
            found.push(Answer::Failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "a truncated netlink reply",
            )));
            break;
        }
        let kind = u16_at(rest, 4).unwrap_or_default();
        let body = &rest[HEADER_LEN..len];
        if u32_at(rest, 8) == Some(sequence) {
            found.push(match kind {
                ERROR | DONE => match u32_at(body, 0).unwrap_or_default() as i32 {
                    errno if errno < 0 => Answer::Failed(io::Error::from_raw_os_error(-errno)),
                    _ => Answer::Finished,
                },
                _ => Answer::Object(kind, body),
            });
        }
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    found
}

/// The attributes in `bytes`, with flags removed from their kind.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & libc::NLA_TYPE_MASK as u16;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Reads a 16-bit number at `offset`.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

/// Reads a 32-bit number at `offset`.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

/// Reads a 64-bit number at `offset`.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips() {
        let mut message = Message::new(16, ACK, &[1, 2, 3]);
        message.name(3, "veth0").nest(18, |inner| {
            inner.attribute(1, b"bridge").attribute(2, &[]);
        });
        let bytes = message.finish(7);
        assert_eq!(bytes.len() % 4, 0);
        let answers = answers(&bytes, 7);
        let [Answer::Object(16, body)] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(&body[..4], &[1, 2, 3, 0]);
        let found: Vec<_> = attributes(&body[4..]).collect();
        assert_eq!(found[0], (3, b"veth0\0".as_slice()));
        assert_eq!(found[1].0, 18);
        let inner: Vec<_> = attributes(found[1].1).collect();
        assert_eq!(inner, [(1, b"bridge".as_slice()), (2, b"".as_slice())]);
    }

    #[test]
    fn separates_errors_from_replies_to_other_requests() {
        let mut bytes = Message::new(ERROR, 0, &(-17_i32).to_ne_bytes()).finish(2);
        bytes.extend(Message::new(ERROR, 0, &0_i32.to_ne_bytes()).finish(1));
        assert!(matches!(answers(&bytes, 1).as_slice(), [Answer::Finished]));
        let found = answers(&bytes, 2);
        let [Answer::Failed(error)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn truncated_messages_end_parsing() {
        let bytes = Message::new(16, 0, &[0; 16]).finish(1);
        assert!(matches!(answers(&bytes[..20], 1).as_slice(), [Answer::Failed(_)]));
        assert!(answers(&bytes[..8], 1).is_empty());
        for len in 0..8 {
            assert_eq!(attributes(&[0xff; 8][..len]).count(), 0);
        }
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0, "a length below its own header");
    }
}
