/* The C interface for Rust: plain structures and a few functions. The same declarations are in src/present/ffi.rs. */
#ifndef WIRETAIL_DPDK_H
#define WIRETAIL_DPDK_H

#include <stdint.h>

/* Maximum number of packets per burst. */
#define WT_BATCH_MAX 64
#define WT_NAME_LEN 64

/* Settings for opening a port. */
struct wt_plan {
	/* Whether to request receive timestamps of the NIC if its driver supports them. */
	uint32_t timestamps;
	/* Time to wait for the link, in ms. */
	uint32_t link_wait_ms;
};

struct wt_port {
	uint16_t id;
	/* Whether the NIC timestamps received packets. */
	uint8_t timestamps;
	uint8_t link_up;
	char driver[WT_NAME_LEN];
};

/* Driver counters since the port was opened. */
struct wt_port_counts {
	/* Packets that the NIC dropped because its queue was full. */
	uint64_t missed;
	/* Packets dropped because there was no free buffer. */
	uint64_t no_buffer;
	/* Packets received with errors. */
	uint64_t rx_errors;
	/* Packets that the driver accepted but could not send. */
	uint64_t tx_errors;
};

/* One direction of a forwarder. The counters are written by one thread and may be read by any thread. The size is two
 * cache lines, because processors fetch cache lines in pairs. */
struct wt_forwarding_path {
	uint16_t from;
	uint16_t to;
	uint32_t reserved;
	uint64_t received;
	/* Packets accepted by the sending port. */
	uint64_t taken;
	/* Packets dropped because the sending port rejected them. */
	uint64_t refused;
	/* Number of polls that found packets, and the maximum number of packets found by one poll. */
	uint64_t bursts;
	uint64_t burst_max;
	uint64_t padding[10];
};

/* Forwarder configuration. */
struct wt_forwarder_config {
	/* Maximum number of packets that are processed and sent together. */
	uint64_t batch;
	/* Simulated processing time per packet, in ns. As in a network function, a batch is sent after all of its
	 * packets have been processed. */
	uint64_t work_ns;
	/* Quiet time in ns. Packets are taken after no packet has arrived for this time, as with a NIC whose receive
	 * timer restarts with each packet. If 0, packets are taken immediately. */
	uint64_t quiet_ns;
};

struct wt_frame {
	const uint8_t *data;
	uint64_t length;
};

/* A received packet, valid until it is released. */
struct wt_packet {
	void *buffer;
	const uint8_t *data;
	/* Number of bytes at `data`, and length of the whole packet in bytes. */
	uint32_t length;
	uint32_t wire_length;
	/* Receive time in ticks of the NIC's clock. Valid only if `timestamped` is not 0. */
	uint64_t ticks;
	uint64_t timestamped;
};

/* Starts the environment abstraction layer. Returns 0 or a negative error number. */
int wt_eal_init(int argc, char **argv);

/* Opens a device with one queue per direction and starts it. Returns 0, or a negative error number and the failed
 * step. */
int wt_port_open(const char *device, const struct wt_plan *plan, struct wt_port *port, const char **step);
void wt_port_close(uint16_t id);
int wt_port_counts(uint16_t id, struct wt_port_counts *counts);
/* Reads the NIC's clock. Returns 0, or a negative error number if the NIC has no readable clock. */
int wt_port_clock(uint16_t id, uint64_t *ticks);

/* Forwards packets in the calling thread, which busy-waits, until `stop` is not 0. Without a quiet time, the packets
 * received by one rx_burst, at most `batch`, are sent by one tx_burst. Packets that arrived before the end are still
 * sent. */
void wt_forward(struct wt_forwarding_path *paths, uint32_t count, const struct wt_forwarder_config *config, const uint8_t *stop);

/* Copies frames and sends them in order. Waits up to `patience_ns` for the port to accept them. Returns the number of
 * accepted frames, and sets `error` if it is less than `count`. */
uint16_t wt_send(uint16_t id, const struct wt_frame *frames, uint16_t count, uint64_t patience_ns, int *error);

/* Receives up to `most` available packets. The caller must release all of them. */
uint16_t wt_receive(uint16_t id, struct wt_packet *packets, uint16_t most);
void wt_release(struct wt_packet *packets, uint16_t count);

#endif
