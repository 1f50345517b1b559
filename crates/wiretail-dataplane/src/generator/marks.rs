//! Marked packets, for devices that filter by content. The marked packets are known in advance.

use wiretail_schema::random::Random;

use crate::error::{DataplaneError, plan};
use crate::generator::frame::mark_room;

/// Marks one packet in every `every` packets with a text after its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Number of packets per block. Each block contains one marked packet.
    pub every: u64,
    pub text: Vec<u8>,
    /// Seed of the random position in each block.
    pub seed: u64,
}

impl Marks {
    /// Whether the packet with this number, from 0 in the order of sending, is marked.
    pub fn is_marked(&self, number: u64) -> bool {
        self.every > 0 && self.in_block(number / self.every) == number
    }

    /// Number of the first marked packet at or after this number.
    pub(crate) fn next_from(&self, number: u64) -> u64 {
        let block = number / self.every;
        let place = self.in_block(block);
        if place >= number { place } else { self.in_block(block + 1) }
    }

    /// Number of the marked packet in a block: a pure function of seed and block, so that no list is needed.
    fn in_block(&self, block: u64) -> u64 {
        let mut random = Random::new(self.seed.wrapping_add(block.wrapping_mul(0xd134_2543_de82_ef95)));
        block * self.every + random.below(self.every)
    }

    /// Checks that frames of this length have room for the text.
    ///
    /// # Errors
    /// Returns an error with the required length if the frames are too short.
    pub(crate) fn check(&self, frame_len: u16) -> Result<(), DataplaneError> {
        if self.every == 0 {
            return Err(plan("packets per marked packet", 0, "at least one"));
        }
        let room = mark_room(&self.text);
        if self.text.is_empty() || room > usize::from(frame_len) {
            let what = format!(
                "frame length for the mark {:?}, which needs at least {room} bytes,",
                String::from_utf8_lossy(&self.text)
            );
            return Err(plan(what, frame_len, "room for the text after the signature"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_one_packet_per_block() {
        let marks = Marks { every: 50, text: b"MARK".to_vec(), seed: 9 };
        let marked: Vec<u64> = (0..5000).filter(|number| marks.is_marked(*number)).collect();
        assert_eq!(marked.len(), 100);
        assert!(marked.iter().enumerate().all(|(block, number)| number / 50 == block as u64));
        let places = marked.iter().map(|number| number % 50).collect::<std::collections::BTreeSet<_>>();
        assert!(places.len() > 30, "{places:?}");
        let mut next = marks.next_from(0);
        for number in &marked {
            assert_eq!(next, *number);
            next = marks.next_from(next + 1);
        }
        assert!((0..100).all(|number| Marks { every: 1, ..marks.clone() }.is_marked(number)));
    }

    #[test]
    fn rejects_frames_too_short_for_mark() {
        let marks = Marks { every: 10, text: b"WIRETAIL-MARK".to_vec(), seed: 0 };
        assert!(marks.check(78).is_ok());
        assert!(marks.check(77).unwrap_err().to_string().contains("at least 78 bytes"));
    }
}
