/* What ports.c sets up and loops.c uses. */
#ifndef WIRETAIL_DPDK_INTERNAL_H
#define WIRETAIL_DPDK_INTERNAL_H

#include "wiretail_dpdk.h"

struct rte_mempool;

/* The buffers of all ports. */
extern struct rte_mempool *wt_pool;
/* Where the NIC's timestamp is in a buffer, and the flag that says that it is there; 0 where no port timestamps. */
extern int wt_timestamp_offset;
extern uint64_t wt_timestamp_flag;

#endif
