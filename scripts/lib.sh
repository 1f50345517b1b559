# shellcheck shell=bash
# Functions shared by demo, test and benches: messages, installation of missing packages, the release build.
# Source it from bash with `set -euo pipefail`, in the root of the repository.

# say MESSAGE...: prints one line of progress.
say() { printf '%s\n' "$*"; }

# die MESSAGE...: exits with a message on standard error.
die() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# seconds_now: prints the seconds since the epoch with milliseconds, to measure steps.
seconds_now() { date +%s.%3N; }

# elapsed START: prints the seconds since START with one decimal.
elapsed() { awk -v from="$1" -v to="$(seconds_now)" 'BEGIN { printf "%.1f", to - from }'; }

# What apt-get is started by; see ensure_quiet_packages.
QUIETLY=()

# apt_get ARGUMENTS...: apt-get without questions; its output is shown only where it fails.
apt_get() {
	local log
	log=$(mktemp)
	if DEBIAN_FRONTEND=noninteractive "${QUIETLY[@]}" apt-get -o DPkg::Lock::Timeout=300 -y "$@" </dev/null >"$log" 2>&1; then
		rm -f "$log"
	else
		tail -n 20 "$log" >&2
		rm -f "$log"
		return 1
	fi
}

# ensure_packages PACKAGE...: installs missing Debian packages; silent if none is missing.
ensure_packages() {
	local missing=() package
	for package in "$@"; do
		case "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)" in
		*' ok installed') ;;
		*) missing+=("$package") ;;
		esac
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "needs the equivalent of these Debian packages: ${missing[*]}"
	is_root || die "needs Debian packages; as root: apt-get install ${missing[*]}"
	say "Installing ${missing[*]} (apt-get)"
	# The package lists of a new machine may be absent or old; they are updated only if the first attempt fails.
	apt_get install --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
	apt_get update || die "apt-get update failed (see above): is the network up?"
	apt_get install --no-install-recommends "${missing[@]}" || die "apt-get install ${missing[*]} failed (see above)"
}

# ensure_quiet_packages SERVICES PACKAGE...: like ensure_packages, but starts no services, now or at boot.
# SERVICES is the list of the packages' services, separated by blanks. Packages start services through two
# programs, which are replaced by /bin/true in a mount namespace for the duration of apt-get.
ensure_quiet_packages() {
	local service new=()
	for service in $1; do
		[ -e "/lib/systemd/system/$service.service" ] || [ -e "/etc/init.d/$service" ] || new+=("$service")
	done
	shift
	# shellcheck disable=SC2016
	QUIETLY=(unshare --mount --propagation private sh -euc '
		for program in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
			if [ -e "$program" ]; then mount --bind /bin/true "$program"; fi
		done
		exec "$@"' sh)
	ensure_packages "$@"
	QUIETLY=()
	for service in "${new[@]}"; do
		if [ -e "/lib/systemd/system/$service.service" ]; then
			DPKG_MAINTSCRIPT_PACKAGE=wiretail deb-systemd-helper disable "$service.service" >/dev/null
		fi
		if [ -e "/etc/init.d/$service" ]; then update-rc.d "$service" disable; fi
	done
}

# ensure_tools COMMAND:PACKAGE...: installs the packages whose command is not in PATH, regardless of how an
# existing command was installed.
ensure_tools() {
	local pair missing=()
	for pair in "$@"; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
	done
	[ ${#missing[@]} -eq 0 ] || ensure_packages "${missing[@]}"
}

# rust_is_recent: succeeds if the compiler satisfies the workspace's rust-version.
rust_is_recent() {
	local needed found
	needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
	[ -n "$found" ] && [ "$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1)" = "$needed" ]
}

# ensure_rust: installs a recent stable Rust and a C compiler (for zstd). Uses the installed toolchain if it
# is recent enough. There is no toolchain file, so that rustup never downloads another one.
ensure_rust() {
	local bin="${CARGO_HOME:-$HOME/.cargo}/bin"
	if [ -e /usr/include/stdlib.h ]; then ensure_tools cc:gcc; else ensure_tools cc:gcc libc6-dev:libc6-dev; fi
	if ! command -v cargo >/dev/null && [ -x "$bin/cargo" ]; then PATH="$bin:$PATH"; fi
	rust_is_recent && return 0
	if command -v rustup >/dev/null; then
		say "Installing the stable Rust toolchain (rustup)"
		rustup toolchain install stable --profile minimal </dev/null || die "rustup could not install Rust: is the network up?"
		export RUSTUP_TOOLCHAIN=stable
	else
		install_rustup
		PATH="$bin:$PATH"
	fi
	rust_is_recent || die "needs the Rust version that Cargo.toml names, or newer; found: $(rustc --version 2>&1)"
}

# ensure_rust_component NAME: installs clippy or rustfmt for the toolchain in use.
ensure_rust_component() {
	cargo "${1/rustfmt/fmt}" --version >/dev/null 2>&1 && return 0
	say "Installing $1 (rustup)"
	rustup component add "$1" </dev/null || die "cannot install $1; try: rustup component add $1"
}

# install_rustup: runs the official installer, without changing the user's shell profile.
install_rustup() {
	local installer
	ensure_tools curl:curl
	[ -e /etc/ssl/certs/ca-certificates.crt ] || ensure_packages ca-certificates
	say "Installing Rust (rustup)"
	installer=$(mktemp)
	curl --proto '=https' --tlsv1.2 --retry 3 -sSf -o "$installer" https://sh.rustup.rs ||
		die "could not download the Rust installer: is the network up?"
	RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$installer" -y --quiet --no-modify-path --profile minimal \
		--default-toolchain stable </dev/null || die "the Rust installer failed (see above)"
	rm -f "$installer"
}

# ensure_python_packages DIR REQUIREMENTS WHAT [OPTION...]: creates a Python environment in DIR with the
# packages of a requirements file, using these options of pip. The environment is kept and reused.
ensure_python_packages() {
	local dir="$1" requirements="$2" what="$3"
	shift 3
	ensure_tools python3:python3
	python3 -c 'import ensurepip, venv' 2>/dev/null || ensure_packages python3-venv
	if cmp -s "$requirements" "$dir/requirements.txt"; then return; fi
	say "Installing $what"
	rm -rf "$dir"
	python3 -m venv "$dir"
	"$dir/bin/pip" install --quiet --disable-pip-version-check "$@" --requirement "$requirements"
	cp "$requirements" "$dir/requirements.txt"
}

# release_binary: prints the path of the program that build_release builds.
release_binary() { printf '%s/release/wiretail\n' "${CARGO_TARGET_DIR:-$PWD/target}"; }

# has_dpdk: succeeds if the DPDK forwarder can be built here.
has_dpdk() { pkg-config --exists libdpdk 2>/dev/null; }

# build_release: builds the program with optimizations, and with DPDK if it is installed.
build_release() {
	local features=()
	if has_dpdk; then features=(--features dpdk); fi
	say "Building wiretail (release${features:+, with DPDK})"
	cargo build --release --locked --quiet --package wiretail "${features[@]}" </dev/null || die "the release build failed (see above)"
	[ -x "$(release_binary)" ] || die "the build left no $(release_binary)"
}

# namespaces_fault: prints why this user can't create network namespaces with veth and a bridge here; prints
# nothing if that works.
namespaces_fault() {
	local probe="wiretail-probe-$$"
	ip netns add "$probe" 2>&1 || return 0
	ip -n "$probe" link add probe0 type veth peer name probe1 2>&1 || true
	ip -n "$probe" link add probe2 type bridge 2>&1 || true
	ip netns delete "$probe"
}

# host_state: prints everything that a run may change, one item per line: namespaces, journals, cpusets,
# links, the cores of interrupts and kernel workers, limits, and processes of this script.
host_state() {
	find /run/netns /run/wiretail -mindepth 1 -printf '%p\n' 2>/dev/null | sort || true
	find /sys/fs/cgroup/cpuset -mindepth 1 -type d 2>/dev/null | sort || true
	ip -o link | sed 's/^[0-9]*: \([^:@]*\).*/link \1/' | sort
	grep -sH . /proc/irq/*/smp_affinity /proc/irq/default_smp_affinity || true
	grep -sH . /sys/devices/virtual/workqueue/cpumask /proc/sys/kernel/sched_rt_runtime_us || true
	pgrep -g 0 -x wiretail || true
}

# added BEFORE AFTER: prints lines of a later host_state that are missing in an earlier one. Ignores removed
# lines, because other programs may have removed them.
added() { comm -13 <(sort <<<"$1") <(sort <<<"$2"); }

# sum_of PATTERN FILE: sums the numbers matched by the first group of the extended regular expression.
sum_of() { sed -nE "s/$1/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'; }

# skipped_tests FILE: lists the Rust tests that printed a line with SKIPPED, with their reasons.
skipped_tests() {
	awk '
		/^---- .* stdout ----$/ { test = $2 ": "; told = 0 }
		/^test result:/ { test = ""; told = 0 }
		/^SKIPPED/ && !told { sub(/^SKIPPED:? */, ""); print test $0; told = test != "" }
	' "$1"
}
