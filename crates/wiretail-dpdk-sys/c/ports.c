/* Starts DPDK, opens and closes ports, and reads port counters. None of this runs in the packet loops. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "internal.h"

/* Number of buffers for all ports, about 38 MiB. Many are needed: net_af_xdp puts 4,096 buffers into the fill ring of
 * each port. */
#define BUFFERS 16383
/* Number of buffers cached per thread. The cache holds several bursts, so that a thread rarely accesses the shared
 * ring. */
#define CACHE 256
/* Number of slots per queue if the driver does not recommend a number. */
#define SLOTS 1024

_Static_assert(sizeof(struct wt_forwarding_path) == 128, "must match Rust");
_Static_assert(sizeof(struct wt_packet) == 40, "must match Rust");
_Static_assert(sizeof(struct wt_port) == 4 + WT_NAME_LEN, "must match Rust");

struct rte_mempool *wt_pool;
int wt_timestamp_offset = -1;
uint64_t wt_timestamp_flag;

/* Redirects standard output while DPDK starts. If an argument is invalid, DPDK prints a list of all its options to
 * standard output, which is reserved for the caller's results. DPDK prints the cause to standard error. */
static int init_quietly(int argc, char **argv)
{
	int output = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int result, error;

	fflush(stdout);
	if (output >= 0 && nowhere >= 0)
		dup2(nowhere, STDOUT_FILENO);
	result = rte_eal_init(argc, argv);
	error = rte_errno;
	fflush(stdout);
	if (output >= 0 && nowhere >= 0)
		dup2(output, STDOUT_FILENO);
	if (output >= 0)
		close(output);
	if (nowhere >= 0)
		close(nowhere);
	return result >= 0 ? 0 : error ? -error : -EINVAL;
}

int wt_eal_init(int argc, char **argv)
{
	int result = init_quietly(argc, argv);

	if (result < 0)
		return result;
	/* No NUMA node is specified, because the best one is unknown before the first port is opened. */
	wt_pool = rte_pktmbuf_pool_create("wiretail", BUFFERS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	return wt_pool ? 0 : -ENOMEM;
}

static int find(const char *device, uint16_t *id)
{
	struct rte_dev_iterator iterator;
	uint16_t found;

	RTE_ETH_FOREACH_MATCHING_DEV(found, device, &iterator) {
		*id = found;
		rte_eth_iterator_cleanup(&iterator);
		return 0;
	}
	return -ENODEV;
}

static int configure(uint16_t id, const struct wt_plan *plan, struct wt_port *port, const char **step)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	uint16_t rx_slots, tx_slots;
	int result;

	*step = "reading the capabilities of the device";
	if ((result = rte_eth_dev_info_get(id, &info)) < 0)
		return result;
	snprintf(port->driver, sizeof(port->driver), "%s", info.driver_name ? info.driver_name : "");
	if (plan->timestamps && (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP)) {
		*step = "registering a field for receive timestamps";
		if (rte_mbuf_dyn_rx_timestamp_register(&wt_timestamp_offset, &wt_timestamp_flag) < 0)
			return -rte_errno;
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
		port->timestamps = 1;
	}
	/* Fast free requires that all packets of a queue come from one pool and have one owner, which is the case
	 * here. */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	rx_slots = info.default_rxportconf.ring_size ? info.default_rxportconf.ring_size : SLOTS;
	tx_slots = info.default_txportconf.ring_size ? info.default_txportconf.ring_size : SLOTS;
	*step = "configuring one queue per direction";
	if ((result = rte_eth_dev_configure(id, 1, 1, &conf)) < 0)
		return result;
	if ((result = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx_slots, &tx_slots)) < 0)
		return result;
	*step = "setting up the receive queue";
	if ((result = rte_eth_rx_queue_setup(id, 0, rx_slots, rte_eth_dev_socket_id(id), NULL, wt_pool)) < 0)
		return result;
	*step = "setting up the send queue";
	return rte_eth_tx_queue_setup(id, 0, tx_slots, rte_eth_dev_socket_id(id), NULL);
}

static int start(uint16_t id, const struct wt_plan *plan, struct wt_port *port, const char **step)
{
	struct rte_eth_link link = {0};
	uint32_t waited = 0;
	int result;

	*step = "starting the device";
	if ((result = rte_eth_dev_start(id)) < 0)
		return result;
	*step = "promiscuous reception";
	result = rte_eth_promiscuous_enable(id);
	/* Ring and memory interface drivers do not support promiscuous mode. They have no addresses and receive all
	 * packets anyway. */
	if (result < 0 && result != -ENOTSUP)
		return result;
	while (rte_eth_link_get_nowait(id, &link) == 0 && !link.link_status && waited < plan->link_wait_ms) {
		rte_delay_us_sleep(10000);
		waited += 10;
	}
	port->link_up = link.link_status;
	rte_eth_stats_reset(id);
	return 0;
}

int wt_port_open(const char *device, const struct wt_plan *plan, struct wt_port *port, const char **step)
{
	uint16_t id;
	int result;

	memset(port, 0, sizeof(*port));
	*step = "probing the device";
	result = rte_dev_probe(device);
	/* PCI devices were already probed when DPDK started. */
	if (result < 0 && result != -EEXIST)
		/* Drivers return -1 for any failure, but -1 read as an error number means "not permitted". */
		return result == -1 ? -ENODEV : result;
	*step = "finding its port";
	if ((result = find(device, &id)) < 0)
		return result;
	port->id = id;
	if ((result = configure(id, plan, port, step)) < 0 || (result = start(id, plan, port, step)) < 0) {
		wt_port_close(id);
		return result;
	}
	return 0;
}

void wt_port_close(uint16_t id)
{
	rte_eth_dev_stop(id);
	rte_eth_dev_close(id);
}

int wt_port_counts(uint16_t id, struct wt_port_counts *counts)
{
	struct rte_eth_stats stats;
	int result = rte_eth_stats_get(id, &stats);

	if (result < 0)
		return result;
	counts->missed = stats.imissed;
	counts->no_buffer = stats.rx_nombuf;
	counts->rx_errors = stats.ierrors;
	counts->tx_errors = stats.oerrors;
	return 0;
}

int wt_port_clock(uint16_t id, uint64_t *ticks)
{
	return rte_eth_read_clock(id, ticks);
}
