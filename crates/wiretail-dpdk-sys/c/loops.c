/* The packet loops: forwarding, sending and receiving. They count packets, and allocate nothing but buffers from the
 * pool. */

#include <errno.h>
#include <stdbool.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

#include "internal.h"

/* Maximum number of packets that each path still forwards after the stop request. This is the capacity of a receive
 * queue. */
#define LAST_PACKETS 4096
/* Maximum number of packets to hold while waiting for a pause in reception. If there is no pause, packets are sent
 * once this many are held. */
#define HELD_MAX 512

/* Registers the calling thread with DPDK if DPDK did not start it. Registration gives the thread an lcore ID, and
 * only threads with an lcore ID have a buffer cache. */
static void enter(void)
{
	if (unlikely(rte_lcore_id() == LCORE_ID_ANY))
		rte_thread_register();
}

/* Adds without an atomic read-modify-write. This is safe because each counter has a single writer, and readers never
 * see a partially written value. */
static inline void count(uint64_t *counter, uint64_t more)
{
	__atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

/* The forwarder configuration, with times in TSC cycles. */
struct pacing {
	uint16_t batch;
	uint64_t work;
	uint64_t quiet;
};

static uint64_t cycles(uint64_t ns)
{
	return (uint64_t)((double)ns * (double)rte_get_tsc_hz() / 1e9);
}

/* Takes received packets. Without a quiet time, this is one batch; with a quiet time, all packets up to the next
 * pause in reception. */
static inline uint16_t take(struct wt_forwarding_path *path, const struct pacing *pacing, struct rte_mbuf **packets)
{
	uint16_t received = rte_eth_rx_burst(path->from, 0, packets, pacing->batch);
	uint64_t last, now;

	if (likely(received == 0 || pacing->quiet == 0))
		return received;
	last = now = rte_rdtsc();
	while (received < HELD_MAX && now - last < pacing->quiet) {
		uint16_t room = RTE_MIN(HELD_MAX - received, WT_BATCH_MAX);
		uint16_t more = rte_eth_rx_burst(path->from, 0, packets + received, room);

		now = rte_rdtsc();
		if (more > 0)
			last = now;
		received += more;
	}
	return received;
}

static inline void pass(struct wt_forwarding_path *path, const struct pacing *pacing, struct rte_mbuf **packets, uint16_t packets_count)
{
	uint16_t taken;

	if (unlikely(pacing->work > 0)) {
		uint64_t end = rte_rdtsc() + packets_count * pacing->work;

		while (rte_rdtsc() < end)
			rte_pause();
	}
	/* Packets are sent immediately, even if there are only a few. Waiting for more packets would look the same as
	 * network delay. */
	taken = rte_eth_tx_burst(path->to, 0, packets, packets_count);
	/* Packets that do not fit into the send queue are dropped. If they were kept, they would delay all later
	 * packets. */
	if (unlikely(taken < packets_count))
		rte_pktmbuf_free_bulk(packets + taken, packets_count - taken);
	/* Packets are counted after they are sent, so that counting does not delay them. */
	count(&path->received, packets_count);
	count(&path->taken, taken);
	count(&path->refused, packets_count - taken);
	count(&path->bursts, 1);
	if (unlikely(packets_count > path->burst_max))
		__atomic_store_n(&path->burst_max, packets_count, __ATOMIC_RELAXED);
}

static inline uint16_t forward_once(struct wt_forwarding_path *path, const struct pacing *pacing)
{
	struct rte_mbuf *packets[HELD_MAX];
	uint16_t received = take(path, pacing, packets);

	for (uint16_t at = 0; at < received; at += pacing->batch)
		pass(path, pacing, packets + at, RTE_MIN(received - at, pacing->batch));
	return received;
}

void wt_forward(struct wt_forwarding_path *paths, uint32_t paths_count, const struct wt_forwarder_config *config, const uint8_t *stop)
{
	const struct pacing pacing = {
		.batch = (uint16_t)RTE_MIN(config->batch, (uint64_t)WT_BATCH_MAX),
		.work = cycles(config->work_ns),
		.quiet = cycles(config->quiet_ns),
	};

	enter();
	while (likely(!__atomic_load_n(stop, __ATOMIC_RELAXED)))
		for (uint32_t at = 0; at < paths_count; at++)
			forward_once(&paths[at], &pacing);
	for (uint32_t at = 0; at < paths_count; at++) {
		uint32_t left = LAST_PACKETS;
		uint16_t received;

		while (left > 0 && (received = forward_once(&paths[at], &pacing)) > 0)
			left -= RTE_MIN(left, received);
	}
}

/* Copies frames into buffers; returns their number. */
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
		bool timestamped = wt_timestamp_flag != 0 && (packet->ol_flags & wt_timestamp_flag) != 0;

		out[at].buffer = packet;
		out[at].data = rte_pktmbuf_mtod(packet, const uint8_t *);
		out[at].length = rte_pktmbuf_data_len(packet);
		out[at].wire_length = rte_pktmbuf_pkt_len(packet);
		out[at].ticks = timestamped ? *RTE_MBUF_DYNFIELD(packet, wt_timestamp_offset, rte_mbuf_timestamp_t *) : 0;
		out[at].timestamped = timestamped;
	}
	return received;
}

void wt_release(struct wt_packet *packets, uint16_t packets_count)
{
	for (uint16_t at = 0; at < packets_count; at++)
		rte_pktmbuf_free(packets[at].buffer);
}
