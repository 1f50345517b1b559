//! Builds the C code against libdpdk if the feature `dpdk` is enabled.

fn main() {
    println!("cargo::rerun-if-changed=c");
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    // DPDK's drivers are plugins of the shared library. With static linking, each driver would have to be
    // listed.
    let mut probe = pkg_config::Config::new();
    probe.statik(false).cargo_metadata(false).env_metadata(true);
    let library = match probe.atleast_version("21.11").probe("libdpdk") {
        Ok(library) => library,
        Err(error) => {
            println!(
                "cargo::error=feature `dpdk` needs libdpdk 21.11 or newer; install it with `wiretail setup dpdk` or"
            );
            println!("cargo::error=`apt-get install libdpdk-dev dpdk pkg-config`: {error}");
            return;
        }
    };
    let mut build = cc::Build::new();
    build.file("c/ports.c").file("c/loops.c").includes(&library.include_paths);
    // DPDK's inlined functions need DPDK's own configuration and must be compiled for the processor that DPDK
    // was built for, or a newer one. pkg_config::Library does not provide these flags.
    let flags = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let flags = flags.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut words = flags.split_whitespace();
    while let Some(word) = words.next() {
        if word == "-include" {
            build.flag(word).flag(words.next().unwrap_or_default());
        } else if word.starts_with("-m") {
            build.flag(word);
        }
    }
    // The C loops are what is measured, so they are optimized in every profile. Warnings in DPDK's headers
    // are disabled.
    build
        .opt_level(3)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .define("ALLOW_EXPERIMENTAL_API", None);
    build.flag("-Wno-unused-parameter").flag("-Wno-deprecated-declarations").compile("wiretail_dpdk");
    // The linker drops libraries that are not used directly. The drivers load the libraries that they need.
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}
