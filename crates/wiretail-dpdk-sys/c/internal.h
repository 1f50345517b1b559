/* Declarations shared by ports.c and loops.c. */
#ifndef WIRETAIL_DPDK_INTERNAL_H
#define WIRETAIL_DPDK_INTERNAL_H

#include "wiretail_dpdk.h"

struct rte_mempool;

/* Buffer pool of all ports. */
extern struct rte_mempool *wt_pool;
/* Offset of the NIC's timestamp in a buffer, and the flag that marks it as valid; 0 if no port timestamps. */
extern int wt_timestamp_offset;
extern uint64_t wt_timestamp_flag;

#endif
