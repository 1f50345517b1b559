#!/wiretail/busybox sh
# Process 1 of a guest: prepares the system, runs the program, handles console commands, ends with the
# program. Its own output lines start with `wiretail-guest:`.

/wiretail/busybox mkdir -p /wiretail/bin /proc /sys /dev /tmp /run /var /root
/wiretail/busybox --install -s /wiretail/bin
export PATH=/wiretail/bin
# The root folder of an initramfs is world-writable. DPDK would then refuse to load plugins.
chmod 755 /
chmod 1777 /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm /dev/hugepages
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
[ -e /var/run ] || ln -s /run /var/run
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo -onlcr
dmesg -n 1
. /wiretail/settings

fail() {
  echo "wiretail-guest: failed: $*"
  poweroff -f
}

# IPv6 is disabled, so that the links send no packets other than the program's.
for which in all default; do
  echo 1 >/proc/sys/net/ipv6/conf/$which/disable_ipv6
done 2>/dev/null
for module in $MODULES; do
  insmod "/wiretail/modules/$module.ko" || fail "module $module"
done
if [ "$HUGEPAGES" -gt 0 ]; then
  mount -t hugetlbfs hugetlbfs /dev/hugepages
  echo "$HUGEPAGES" >/proc/sys/vm/nr_hugepages
fi
ip link set lo up
for link in $LINKS; do
  name=${link%%,*}
  mac=${link##*,}
  found=
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    for candidate in /sys/class/net/*; do
      [ "$(cat "$candidate/address")" = "$mac" ] && found=${candidate##*/}
    done
    [ -n "$found" ] && break
    sleep 0.2
  done
  [ -n "$found" ] || fail "no link $name with address $mac"
  [ "$found" = "$name" ] || ip link set "$found" name "$name"
  ip link set "$name" up || fail "link $name"
done

# The program runs on the last core, everything else on the others.
last=$(($(nproc --all) - 1))
if [ "$last" -gt 0 ]; then
  taskset -p "$(printf %x $(((1 << last) - 1)))" $$ >/dev/null
  set -- taskset "$(printf %x $((1 << last)))"
else
  set --
fi
mkfifo /wiretail/stdin /wiretail/errors
# Opened for both reading and writing, so that the program never reads an end of file.
exec 4<>/wiretail/stdin
# Standard output is the console, because programs flush each line on a terminal. Standard error is not a
# terminal, because programs would draw progress displays on it.
cat /wiretail/errors &
errors=$!
echo "wiretail-guest: ready, Linux $(uname -r), $(nproc --all) cores, $(cat /proc/cmdline)"
"$@" /wiretail/program <&4 2>/wiretail/errors &
program=$!

obey() {
  while read -r command rest; do
    case "$command" in
      signal) kill -s "$rest" "$program" ;;
      line) echo "$rest" >&4 ;;
      stop) kill -s TERM "$program" ;;
      interrupts)
        echo "wiretail-guest: interrupts"
        cat /proc/interrupts
        echo "wiretail-guest: end"
        ;;
      "") ;;
      *) echo "wiretail-guest: unknown command: $command" ;;
    esac
  done
}
obey </dev/ttyS0 &

wait $program
status=$?
# Wait for the remaining error output.
wait $errors
echo "wiretail-guest: status $status"
sync
poweroff -f
