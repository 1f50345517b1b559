/* What Rust sees of DPDK: plain structures and a handful of functions. src/present/ffi.rs declares the same. */
#ifndef WIRETAIL_DPDK_H
#define WIRETAIL_DPDK_H

#include <stdint.h>

/* Most packets of a burst. */
#define WT_BATCH_MAX 64
#define WT_NAME_LEN 64

/* How a port is opened. */
struct wt_plan {
	/* Ask for reception timestamps of the NIC where its driver offers them. */
	uint32_t timestamps;
	/* How long to wait for the link, in ms. */
	uint32_t link_wait_ms;
};

struct wt_port {
	uint16_t id;
	/* The NIC timestamps received packets. */
	uint8_t timestamps;
	uint8_t link_up;
	char driver[WT_NAME_LEN];
};

/* What the driver counted since the port was opened. */
struct wt_port_counts {
	/* Packets that the NIC dropped for want of room in its queue. */
	uint64_t missed;
	/* Packets that were dropped for want of a buffer. */
	uint64_t no_buffer;
	/* Packets that were received broken. */
	uint64_t rx_errors;
	/* Packets that the driver took for sending and did not send. */
	uint64_t tx_errors;
};

/* A direction of a forwarder. One thread writes the counters, any may read them: two lines of the cache, as
 * processors fetch them in pairs. */
struct wt_forwarding_path {
	uint16_t from;
	uint16_t to;
	uint32_t reserved;
	uint64_t received;
	/* Packets that the sending port took. */
	uint64_t taken;
	/* Packets that it did not take; they are gone. */
	uint64_t refused;
	/* Looks that found packets, and the most that one found. */
	uint64_t bursts;
	uint64_t burst_max;
	uint64_t padding[10];
};

/* How a forwarder treats packets. */
struct wt_forwarder_config {
	/* Most packets that are processed and sent together. */
	uint64_t batch;
	/* What each packet of a batch costs before the batch is sent, in ns: what a network function would compute. */
	uint64_t work_ns;
	/* Packets are taken over when no further one has come for so long, in ns, as from a NIC whose receive timer
	 * starts again with each packet; 0: at once. */
	uint64_t quiet_ns;
};

struct wt_frame {
	const uint8_t *data;
	uint64_t length;
};

/* A received packet; valid until it is released. */
struct wt_packet {
	void *buffer;
	const uint8_t *data;
	/* Bytes at data, and of the whole packet. */
	uint32_t length;
	uint32_t wire_length;
	/* Ticks of the NIC's clock, where `timestamped`. */
	uint64_t ticks;
	uint64_t timestamped;
};

/* Starts the environment abstraction layer. 0, or a negative error number. */
int wt_eal_init(int argc, char **argv);

/* Opens a device with one queue a direction, and starts it. 0, or a negative error number, and the step that
 * failed. */
int wt_port_open(const char *device, const struct wt_plan *plan, struct wt_port *port, const char **step);
void wt_port_close(uint16_t id);
int wt_port_counts(uint16_t id, struct wt_port_counts *counts);
/* The NIC's clock now. 0, or a negative error number: it has none. */
int wt_port_clock(uint16_t id, uint64_t *ticks);

/* Forwards until `stop` is not 0, on the calling thread, which busy-waits. What one rx_burst of at most `batch`
 * packets takes is sent by one tx_burst at once. What was received by the end still leaves. */
void wt_forward(struct wt_forwarding_path *paths, uint32_t count, const struct wt_forwarder_config *config, const uint8_t *stop);

/* Copies frames and sends them; waits for at most `patience_ns` until the port takes them. Returns how many it
 * took, the first ones; with fewer, `error` is why. */
uint16_t wt_send(uint16_t id, const struct wt_frame *frames, uint16_t count, uint64_t patience_ns, int *error);

/* Up to `most` packets that are there. Release all of them. */
uint16_t wt_receive(uint16_t id, struct wt_packet *packets, uint16_t most);
void wt_release(struct wt_packet *packets, uint16_t count);

#endif
