/* The hot loops: packets through, out and in. They allocate nothing but buffers of the pool, and count. */

#include <errno.h>
#include <stdbool.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

#include "internal.h"

/* Most packets of a way that still leave when it was told to stop: all that a receiving queue holds. */
#define LAST_PACKETS 4096

/* A thread that DPDK did not start has no number, and without one no cache of buffers. */
static void enter(void)
{
	if (unlikely(rte_lcore_id() == LCORE_ID_ANY))
		rte_thread_register();
}

/* One writer: a plain addition, whose result others see whole. */
static inline void count(uint64_t *counter, uint64_t more)
{
	__atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

static inline uint16_t forward_once(struct wt_way *way, uint16_t batch)
{
	struct rte_mbuf *packets[WT_BATCH_MAX];
	uint16_t received = rte_eth_rx_burst(way->from, 0, packets, batch);
	uint16_t taken;

	if (likely(received == 0))
		return 0;
	/* At once, however few there are: waiting for more is a delay that nobody can tell from the network's. */
	taken = rte_eth_tx_burst(way->to, 0, packets, received);
	/* What finds the port full is dropped: queued, it would delay all that come behind it. */
	if (unlikely(taken < received))
		rte_pktmbuf_free_bulk(packets + taken, received - taken);
	/* Counted behind the sending, where it delays nobody. */
	count(&way->received, received);
	count(&way->taken, taken);
	count(&way->refused, received - taken);
	count(&way->bursts, 1);
	if (unlikely(received > way->burst_max))
		__atomic_store_n(&way->burst_max, received, __ATOMIC_RELAXED);
	return received;
}

void wt_forward(struct wt_way *ways, uint32_t ways_count, uint16_t batch, const uint8_t *stop)
{
	enter();
	while (likely(!__atomic_load_n(stop, __ATOMIC_RELAXED)))
		for (uint32_t at = 0; at < ways_count; at++)
			forward_once(&ways[at], batch);
	for (uint32_t at = 0; at < ways_count; at++) {
		uint32_t left = LAST_PACKETS;
		uint16_t received;

		while (left > 0 && (received = forward_once(&ways[at], batch)) > 0)
			left -= RTE_MIN(left, received);
	}
}

/* Copies frames into buffers; returns how many. */
static uint16_t fill(struct rte_mbuf **packets, const struct wt_frame *frames, uint16_t frames_count, int *error)
{
	if (rte_pktmbuf_alloc_bulk(wt_pool, packets, frames_count) != 0) {
		*error = ENOBUFS;
		return 0;
	}
	for (uint16_t at = 0; at < frames_count; at++) {
		char *room = NULL;

		if (frames[at].length <= UINT16_MAX)
			room = rte_pktmbuf_append(packets[at], frames[at].length);
		if (room == NULL) {
			*error = EMSGSIZE;
			rte_pktmbuf_free_bulk(packets + at, frames_count - at);
			return at;
		}
		rte_memcpy(room, frames[at].data, frames[at].length);
	}
	return frames_count;
}

uint16_t wt_send(uint16_t id, const struct wt_frame *frames, uint16_t frames_count, uint64_t patience_ns, int *error)
{
	struct rte_mbuf *packets[WT_BATCH_MAX];
	uint16_t filled, taken;
	uint64_t end;

	enter();
	filled = fill(packets, frames, RTE_MIN(frames_count, WT_BATCH_MAX), error);
	taken = rte_eth_tx_burst(id, 0, packets, filled);
	if (likely(taken == filled))
		return taken;
	end = rte_get_tsc_cycles() + rte_get_tsc_hz() / 1000000 * patience_ns / 1000;
	while (taken < filled && rte_get_tsc_cycles() < end)
		taken += rte_eth_tx_burst(id, 0, packets + taken, filled - taken);
	if (taken < filled) {
		*error = ENOBUFS;
		rte_pktmbuf_free_bulk(packets + taken, filled - taken);
	}
	return taken;
}

uint16_t wt_receive(uint16_t id, struct wt_packet *out, uint16_t most)
{
	struct rte_mbuf *packets[WT_BATCH_MAX];
	uint16_t received;

	enter();
	received = rte_eth_rx_burst(id, 0, packets, RTE_MIN(most, WT_BATCH_MAX));
	for (uint16_t at = 0; at < received; at++) {
		struct rte_mbuf *packet = packets[at];
		bool stamped = wt_stamp_flag != 0 && (packet->ol_flags & wt_stamp_flag) != 0;

		out[at].buffer = packet;
		out[at].data = rte_pktmbuf_mtod(packet, const uint8_t *);
		out[at].length = rte_pktmbuf_data_len(packet);
		out[at].wire_length = rte_pktmbuf_pkt_len(packet);
		out[at].ticks = stamped ? *RTE_MBUF_DYNFIELD(packet, wt_stamp_offset, rte_mbuf_timestamp_t *) : 0;
		out[at].stamped = stamped;
	}
	return received;
}

void wt_release(struct wt_packet *packets, uint16_t packets_count)
{
	for (uint16_t at = 0; at < packets_count; at++)
		rte_pktmbuf_free(packets[at].buffer);
}
