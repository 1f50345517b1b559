//! Kernel traces with damaged pages, and with documents that do not match them.

use std::path::Path;

use wiretail_capture::trace::Trace;
use wiretail_schema::causes::trace::TraceNames;

use super::{below, fuzz, mutate, overwrite, pick};

#[allow(dead_code, reason = "the unit tests and the benchmark use the rest")]
#[path = "../../src/trace/test_support.rs"]
mod test_support;

#[test]
fn kernel_trace() {
    let (info, pages) = test_support::sample();
    let document = serde_json::to_string(&info).expect("JSON").into_bytes();
    fuzz("kernel trace", |random| {
        let mut text = document.clone();
        let mut info = info.clone();
        match below(random, 8) {
            // Most results are not valid JSON. Valid documents must either be read or be rejected.
            0 => mutate(&mut text, &document, random),
            1 => {
                let event = below(random, info.events.len());
                let other = info.events[below(random, info.events.len())].format.clone().into_bytes();
                let mut format = std::mem::take(&mut info.events[event].format).into_bytes();
                mutate(&mut format, &other, random);
                info.events[event].format = String::from_utf8_lossy(&format).into_owned();
            }
            2 => {
                let mut header = std::mem::take(&mut info.header_page).into_bytes();
                let size = pick(random, &["1", "8", "16", "112", "4079", "1048560", "99999999999999999999"]);
                header.truncate(header.len() - below(random, header.len()));
                info.header_page = String::from_utf8_lossy(&header).replace("4080", size);
                info.page_bytes = 16 + size.parse().unwrap_or(0);
            }
            _ => {}
        }
        if text != document {
            match serde_json::from_slice(&text) {
                Ok(lie) => info = lie,
                Err(_) => return,
            }
        }
        let streams = info.streams.len();
        let Ok(mut trace) = Trace::new(Path::new("fuzz"), info) else { return };
        let mut damaged = pages.clone();
        for (number, pages) in damaged.iter_mut().enumerate() {
            if below(random, 3) == 0 {
                continue;
            }
            let other = document[..200].to_vec();
            mutate(pages, &other, random);
            // Record headers may be anywhere, so any byte is changed above. All other parsing depends on the
            // page's count, so half of the changed pages also get a random count.
            if below(random, 2) == 0 {
                continue;
            }
            overwrite(pages, 8 + 4096 * number, &(random.bits() as u16 & 0x1fff).to_le_bytes());
        }
        let bytes: usize = damaged.iter().map(Vec::len).sum();
        let mut events = 0;
        let (mut names, mut stacks) = (0, 0);
        let result = trace.read_from(damaged.iter().map(Vec::as_slice), |event| {
            events += 1;
            (names, stacks) = (names.max(event.name), stacks.max(event.stack));
        });
        assert!(trace.name(names).is_some() || names == 0, "an invalid name");
        assert!(trace.stack(stacks).is_some() || stacks == 0, "an invalid stack");
        // A record has at least eight bytes.
        assert!(events <= bytes / 8, "{events} events of {bytes} bytes");
        match result {
            Ok(end) => {
                assert_eq!(end.events, events as u64);
                assert!(end.lost.iter().all(|lost| lost.from_ns <= lost.to_ns && lost.stream < streams));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.starts_with("fuzz/") && text.contains("at byte") && text.contains(';'),
                    "{text}"
                );
            }
        }
    });
}
