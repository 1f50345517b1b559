//! A fixed piece of work: how long it takes says how fast the core is at the moment. A chain of operations of which each
//! waits for the one before leaves most of a processor's units idle, and hardly notices that somebody else uses
//! them: a second hardware thread on the physical core, of another virtual machine maybe. So there are several chains, as in
//! a search through packets for words, and enough of them to keep the units busy.

use std::hint::black_box;

/// Bytes that are looked at: with the tables they fit into the first cache.
const LEN: usize = 12 << 10;
/// Chains that don't wait for each other.
const LANES: usize = 6;
/// How often all of it is looked at: 25 to 50 us on processors of the 2020s, so that reading the clock is nothing beside.
const PASSES: usize = 3;

/// The work's memory.
#[derive(Debug, Clone)]
pub struct Work {
    text: Box<[u8; LEN]>,
    /// The next state by the present one's low bits and a byte's class.
    next: Box<[u8; 256]>,
    class: Box<[u8; 256]>,
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

impl Work {
    /// A text of words of two to nine letters, and the tables to look for them; the same everywhere.
    pub fn new() -> Self {
        let mut seed = 1_u32;
        let mut draw = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as u8
        };
        let mut text = Box::new([0; LEN]);
        text.iter_mut().for_each(|byte| *byte = if draw() < 48 { b' ' } else { b'a' + draw() % 26 });
        let mut next = Box::new([0; 256]);
        next.iter_mut().for_each(|state| *state = draw() & 15);
        let mut class = Box::new([0; 256]);
        (0..=255_u8).zip(class.iter_mut()).for_each(|(byte, class)| *class = (byte % 13) << 4);
        Self { text, next, class }
    }

    /// Does it once. The result is the same each time.
    #[inline(never)]
    pub fn run(&mut self) -> u64 {
        let text = black_box(&*self.text);
        let (mut states, mut found) = ([0_u8; LANES], [0_u64; LANES]);
        let part = LEN / LANES;
        for at in (0..PASSES).flat_map(|_| 0..part) {
            for lane in 0..LANES {
                let byte = text[lane * part + at];
                let state = self.next[usize::from(self.class[usize::from(byte)] | states[lane])];
                if byte == b' ' {
                    found[lane] += u64::from(state);
                }
                states[lane] = state;
            }
        }
        black_box(found.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_always_the_same() {
        let mut work = Work::new();
        let first = work.run();
        assert!(first > 0);
        assert_eq!((work.run(), Work::new().run()), (first, first));
        assert!(work.next.iter().all(|state| *state < 16) && work.class.iter().all(|class| class & 15 == 0));
    }
}
