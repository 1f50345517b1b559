//! tuned profile (tuned.conf(5), tuned-profiles(7)).

use std::fmt::Write;

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, cores, heading, sysctl, values, words};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let mut text = format!("# {}.\n[main]\n", heading(plan));
    // Writing to a String cannot fail.
    let mut line = |args: std::fmt::Arguments<'_>| {
        let _ = text.write_fmt(args);
    };
    line(format_args!("summary=Packets on cores {}: {}\n", plan.cores, plan.profile.name()));
    if plan.profile == Profile::Optimized {
        line(format_args!("include=latency-performance\n"));
    }
    line(format_args!("\n[bootloader]\ncmdline_wiretail={}\n", words(plan).join(" ")));
    line(format_args!("\n[sysctl]\n"));
    for (path, wanted, _) in values(plan, "/proc/sys/") {
        line(format_args!("{}={wanted}\n", sysctl::name(path)));
    }
    line(format_args!("\n[sysfs]\n"));
    for (path, wanted, _) in values(plan, "/sys/") {
        line(format_args!("{path}={wanted}\n"));
    }
    if plan.profile != Profile::Regular {
        let list: Vec<String> = cores(&plan.cores).cores().iter().map(u32::to_string).collect();
        line(format_args!("\n[scheduler]\nisolated_cores={}\n", list.join(",")));
    }
    let path = format!("etc/tuned/wiretail-{}/tuned.conf", plan.profile.name());
    vec![Output::new(
        path,
        text,
        "tuned: tuned-adm profile wiretail-PROFILE, instead of the files for GRUB, sysctl and systemd",
    )]
}
