//! Selection of trace events. Their meaning is documented in `wiretail_capture::trace`.

use std::fs;
use std::path::Path;

use wiretail_schema::units::cores::CoreSet;

/// An event to enable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Folder below `events`.
    pub system: String,
    /// Name within that folder.
    pub name: String,
    /// Filter expression; only matching events are recorded.
    pub filter: Option<String>,
}

/// Events of the watched cores, in addition to those of `irq_vectors`.
const WATCHED: &[(&str, &str)] = &[
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("irq", "softirq_entry"),
    ("irq", "softirq_exit"),
    ("sched", "sched_switch"),
    ("csd", "csd_function_entry"),
    ("csd", "csd_function_exit"),
    ("tlb", "tlb_flush"),
    ("nmi", "nmi_handler"),
];

/// The kernel function that another core queues in order to wake a task.
pub const WAKING: &str = "sched_ttwu_pending";

fn wanted(system: &str, name: &str) -> Wanted {
    Wanted { system: system.to_owned(), name: name.to_owned(), filter: None }
}

/// All events to record on the watched cores. Which of the processor's own interrupts exist depends on the
/// kernel, so every interrupt vector that has entry and exit events in this instance is included.
pub fn of_watched(instance: &Path, page_faults: bool) -> Vec<Wanted> {
    let vectors = fs::read_dir(instance.join("events/irq_vectors")).into_iter().flatten();
    let vectors = vectors.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut vectors: Vec<String> =
        vectors.filter(|name| name.ends_with("_entry") || name.ends_with("_exit")).collect();
    vectors.sort();
    if vectors.is_empty() {
        // A placeholder, so that the missing event is reported as a remark.
        vectors.push("local_timer_entry".to_owned());
    }
    let mut all: Vec<Wanted> = vectors.iter().map(|name| wanted("irq_vectors", name)).collect();
    all.extend(WATCHED.iter().map(|(system, name)| wanted(system, name)));
    if page_faults {
        all.extend(["page_fault_user", "page_fault_kernel"].map(|name| wanted("exceptions", name)));
    }
    all
}

/// Filter expression for an event's `cpu` field. Uses separate comparisons, because kernels before 6.6 cannot
/// compare a number with a list.
fn is_watched(watched: &CoreSet) -> String {
    let equal: Vec<String> = watched.cores().iter().map(|core| format!("cpu == {core}")).collect();
    equal.join(" || ")
}

/// The trigger that records the stack when a function is queued for a watched core. Skips the function at
/// address `waking` (Linux, Documentation/trace/events.rst).
pub fn stack_trigger(watched: &CoreSet, waking: Option<u64>) -> String {
    let but = waking.map_or(String::new(), |waking| format!(" && func != {waking:#x}"));
    format!("stacktrace if ({}){but}", is_watched(watched))
}

/// Events sent to the watched cores from any core.
pub fn of_sends(watched: &CoreSet) -> Vec<Wanted> {
    let one = Some(is_watched(watched));
    let mask = Some(format!("cpumask & CPUS{{{watched}}}"));
    [("csd", "csd_queue_cpu", &one), ("ipi", "ipi_send_cpu", &one), ("ipi", "ipi_send_cpumask", &mask)]
        .map(|(system, name, filter)| Wanted { filter: filter.clone(), ..wanted(system, name) })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_filters_select_watched_cores() {
        let sends = of_sends(&CoreSet::new([1, 2, 5]));
        assert_eq!(sends[0].filter.as_deref(), Some("cpu == 1 || cpu == 2 || cpu == 5"));
        assert_eq!(sends[2].filter.as_deref(), Some("cpumask & CPUS{1-2,5}"));
    }

    #[test]
    fn stack_trigger_excludes_waking() {
        let cores = CoreSet::new([1, 2]);
        assert_eq!(stack_trigger(&cores, None), "stacktrace if (cpu == 1 || cpu == 2)");
        let trigger = stack_trigger(&cores, Some(0xffff_ffff_813a_84a0));
        assert_eq!(trigger, "stacktrace if (cpu == 1 || cpu == 2) && func != 0xffffffff813a84a0");
    }

    #[test]
    fn records_vectors_that_kernel_has() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a_entry", "a_exit", "vector_alloc", "enable"] {
            fs::create_dir_all(folder.path().join("events/irq_vectors").join(name)).expect("made");
        }
        let found = of_watched(folder.path(), true);
        let vectors: Vec<&str> =
            found.iter().filter(|event| event.system == "irq_vectors").map(|event| &*event.name).collect();
        assert_eq!(vectors, ["a_entry", "a_exit"]);
        assert!(found.iter().any(|event| event.name == "page_fault_user"));
        assert_eq!(of_watched(Path::new("/no/such/folder"), false)[0].name, "local_timer_entry");
    }
}
