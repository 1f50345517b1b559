//! Packets that carry a text, for devices that filter by what a packet holds: which ones do is known beforehand.

use wiretail_schema::random::Random;

use crate::error::{DataplaneError, plan};
use crate::generator::frame::mark_room;

/// One packet in so many carries a text behind its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Each block of so many packets has one.
    pub every: u64,
    /// The text.
    pub text: Vec<u8>,
    /// Draws its place in each block.
    pub seed: u64,
}

impl Marks {
    /// Whether the packet of this number, counted from 0 in the order of sending, is marked.
    pub fn is_marked(&self, number: u64) -> bool {
        self.every > 0 && self.in_block(number / self.every) == number
    }

    /// The number of the first marked packet at this one or behind it.
    pub(crate) fn next_from(&self, number: u64) -> u64 {
        let block = number / self.every;
        let place = self.in_block(block);
        if place >= number { place } else { self.in_block(block + 1) }
    }

    /// A pure function of seed and block, so that nobody has to keep a list.
    fn in_block(&self, block: u64) -> u64 {
        let mut random = Random::new(self.seed.wrapping_add(block.wrapping_mul(0xd134_2543_de82_ef95)));
        block * self.every + random.below(self.every)
    }

    /// Whether frames of this length have room for the text.
    ///
    /// # Errors
    /// They have not; what would do.
    pub(crate) fn check(&self, frame_len: u16) -> Result<(), DataplaneError> {
        if self.every == 0 {
            return Err(plan("packets for each marked one", 0, "at least one"));
        }
        let room = mark_room(&self.text);
        if self.text.is_empty() || room > usize::from(frame_len) {
            let what = format!(
                "frame length for the mark {:?}, which needs {room} bytes or more,",
                String::from_utf8_lossy(&self.text)
            );
            return Err(plan(what, frame_len, "room for a text behind the signature"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_one_mark() {
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
    fn frames_too_short_are_refused() {
        let marks = Marks { every: 10, text: b"WIRETAIL-MARK".to_vec(), seed: 0 };
        assert!(marks.check(78).is_ok());
        assert!(marks.check(77).unwrap_err().to_string().contains("78 bytes or more"));
    }
}
