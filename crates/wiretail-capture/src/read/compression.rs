//! Streaming decompression of gzip (RFC 1952, with several concatenated members) and zstd (RFC 8878, with
//! several frames).
//!
//! Memory is bounded independently of the file's content: gzip needs 32 KiB, and zstd needs the window of its
//! frame header, which is limited to 2^26 bytes here. The decompressed data is never held as a whole.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::error::CaptureError;

/// Largest accepted window of a zstd frame, as a power of two: 64 MiB, so that reading two captures at once
/// takes less than 256 MiB of memory. `zstd -20` uses a window of 2^25 bytes; `zstd -22` and `--long` use
/// 2^27 bytes.
const WINDOW_LOG_MAX: u32 = 26;

/// Size of the reads of compressed data.
const COMPRESSED_BUFFER: usize = 128 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A skippable frame, which parallel compressors write first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn decoder(self, compressed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        let compressed = BufReader::with_capacity(COMPRESSED_BUFFER, compressed);
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(compressed)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }

    /// The error for a capture from which no packet could be decompressed.
    pub(super) fn error(self, file: &str, offset: u64, error: &io::Error) -> CaptureError {
        let detail = error.to_string();
        let hint = if detail.contains("too much memory") {
            "its window is larger than 64 MiB; recompress it: zstd -dc --long=31 FILE | zstd -19 -o NEW"
        } else {
            "the compressed data is damaged; copy or record the file again"
        };
        CaptureError::Compression { file: file.to_owned(), kind: self.name(), offset, detail, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PcapBuilder, collect, gzip, open, udp4, zstd};

    fn sample(frames: u32) -> Vec<u8> {
        let mut file = PcapBuilder::new(false, true);
        for id in 0..frames {
            file.frame(i64::from(id) * 1000, &udp4(id.wrapping_mul(0x9e37_79b9), 60), 60);
        }
        file.bytes
    }

    #[test]
    fn members_and_frames_are_joined() {
        let plain = sample(20_000);
        let expected = collect(&mut open(&plain).unwrap()).unwrap();
        let (first, second) = plain.split_at(plain.len() / 3);
        for (compress, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (zstd, "zstd")] {
            for compressed in [compress(&plain), [compress(first), compress(second)].concat()] {
                let mut reader = open(&compressed).unwrap();
                assert_eq!(reader.description(), format!("pcap (ns, little endian), {name}, Ethernet"));
                assert!(collect(&mut reader).unwrap() == expected);
                assert!(reader.truncation().is_none());
                assert_eq!(reader.compressed_offset(), compressed.len() as u64);
                assert_eq!(reader.offset(), plain.len() as u64);
            }
        }
    }

    #[test]
    fn a_truncated_stream_keeps_its_complete_packets() {
        let plain = sample(20_000);
        for compressed in [gzip(&plain), zstd(&plain)] {
            let mut reader = open(&compressed[..compressed.len() * 3 / 4]).unwrap();
            let frames = collect(&mut reader).unwrap().len();
            assert!(frames > 1000 && frames < 20_000, "{frames}");
            let damage = reader.truncation().unwrap();
            assert!(damage.detail.contains("damaged"), "{}", damage.detail);
            assert_eq!(damage.offset, 24 + frames as u64 * 76);
        }
    }

    #[test]
    fn a_stream_without_data_is_an_error() {
        let plain = sample(3);
        for compressed in [gzip(&plain), zstd(&plain)] {
            let error = open(&compressed[..8]).err().unwrap();
            assert!(matches!(error, CaptureError::Compression { offset: 0, .. }), "{error}");
        }
    }

    #[test]
    fn rejects_a_large_window_with_a_hint() {
        // Frame header: no single segment, no content size, window 2^31 (exponent 21, mantissa 0).
        let bomb = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0, 0];
        let error = open(&bomb).err().unwrap().to_string();
        assert!(error.contains("zstd -dc --long=31"), "{error}");
    }

    #[test]
    fn endless_zeros_are_damage() {
        let mut plain = sample(2);
        plain.resize(64 << 20, 0);
        let compressed = zstd(&plain);
        assert!(compressed.len() < 10_000);
        let mut reader = open(&compressed).unwrap();
        assert_eq!(collect(&mut reader).unwrap().len(), 2);
        assert_eq!(reader.truncation().unwrap().offset, 24 + 2 * 76);
        assert_eq!(reader.buffer_capacity(), super::super::input::BUFFER_LEN);
    }

    #[test]
    fn rejects_twice_compressed_files() {
        let error = open(&gzip(&zstd(&sample(1)))).err().unwrap().to_string();
        assert!(error.contains("compressed twice"), "{error}");
    }
}
