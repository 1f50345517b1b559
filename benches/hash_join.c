/* A plain hash join in C, as a reference: the cost of matching if the format, the key and the size are known.
 *
 *     hash_join PRE POST
 *
 * Maps both files and reads them once. Ingress times are stored in an open-addressing table, keyed by the 4-byte
 * counter at the start of the UDP payload. Delays (0 < delay < 5 s) are radix-sorted for the percentiles. The tables
 * request huge pages, because page faults would otherwise cost more than the join. There are no other statistics, no
 * other formats and no duplicates, so this does much less than Wiretail. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_HEADER = 24, RECORD_HEADER = 16, COUNTER_AT = RECORD_HEADER + 14 + 20 + 8 };
static const int64_t window_ns = 5000000000;

struct capture {
	const char *path;
	const uint8_t *at, *end;
	size_t size;
};

struct slot {
	int64_t time_ns; /* 0: empty */
	uint32_t counter;
};

static void *checked(void *pointer, const char *what)
{
	if (pointer == NULL || pointer == MAP_FAILED) {
		perror(what);
		exit(1);
	}
	return pointer;
}

/* Returns zeroed memory, in huge pages if the kernel has any. */
static void *memory(size_t bytes)
{
	const size_t huge = 2 << 20;
	bytes = (bytes + huge - 1) / huge * huge;
	void *pages = checked(aligned_alloc(huge, bytes), "memory");
	madvise(pages, bytes, MADV_HUGEPAGE);
	return memset(pages, 0, bytes);
}

static uint32_t word(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof value); /* little-endian hosts only */
	return value;
}

static struct capture map(const char *path)
{
	struct stat status;
	int file = open(path, O_RDONLY);
	if (file < 0 || fstat(file, &status) != 0) {
		perror(path);
		exit(1);
	}
	const uint8_t *bytes = checked(mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0), path);
	close(file);
	if (status.st_size < FILE_HEADER || word(bytes) != 0xa1b23c4d) {
		fprintf(stderr, "%s: not a little-endian pcap file with nanoseconds\n", path);
		exit(1);
	}
	return (struct capture){path, bytes + FILE_HEADER, bytes + status.st_size, status.st_size};
}

/* Reads the next packet's time and counter; returns 0 at the end. */
static int next(struct capture *capture, int64_t *time_ns, uint32_t *counter)
{
	while (capture->end - capture->at >= RECORD_HEADER) {
		const uint8_t *record = capture->at;
		uint32_t captured = word(record + 8);
		if ((size_t)(capture->end - record) < RECORD_HEADER + (size_t)captured)
			return 0;
		capture->at += RECORD_HEADER + captured;
		if (RECORD_HEADER + captured < COUNTER_AT + 4)
			continue;
		*time_ns = (int64_t)word(record) * 1000000000 + word(record + 4);
		*counter = word(record + COUNTER_AT);
		return 1;
	}
	return 0;
}

/* Sorts by the least significant digit first, in three passes of 11 bits, which suffice for 5 s in ns. */
static uint64_t *radix_sort(uint64_t *from, uint64_t *to, size_t n)
{
	for (int shift = 0; shift < 33; shift += 11) {
		size_t start[2049] = {0};
		for (size_t i = 0; i < n; i++)
			start[(from[i] >> shift & 2047) + 1]++;
		for (int digit = 0; digit < 2048; digit++)
			start[digit + 1] += start[digit];
		for (size_t i = 0; i < n; i++)
			to[start[from[i] >> shift & 2047]++] = from[i];
		uint64_t *swap = from;
		from = to;
		to = swap;
	}
	return from;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: %s PRE POST\n", argv[0]);
		return 2;
	}
	struct capture pre = map(argv[1]), post = map(argv[2]);
	/* Assumes that all records have the length of the first one; with shorter ones, the table could be too small. */
	size_t record = RECORD_HEADER + (pre.end - pre.at >= RECORD_HEADER ? word(pre.at + 8) : 0);
	size_t most = pre.size / record + 1, slots = 1;
	while (slots * 3 < most * 4)
		slots *= 2;
	int shift = 64 - __builtin_ctzll(slots);
	struct slot *table = memory(slots * sizeof *table);
	uint64_t *delays = memory(most * sizeof *delays), *spare = memory(most * sizeof *spare);
	size_t sent = 0, arrived = 0;
	int64_t time_ns;
	uint32_t counter;
	while (next(&pre, &time_ns, &counter)) {
		/* Fibonacci hashing: Knuth, The Art of Computer Programming 3, section 6.4. */
		size_t at = counter * UINT64_C(0x9e3779b97f4a7c15) >> shift;
		while (table[at].time_ns != 0)
			at = (at + 1) & (slots - 1);
		table[at] = (struct slot){time_ns, counter};
		if (++sent == most) {
			fprintf(stderr, "%s: records of different lengths\n", pre.path);
			return 1;
		}
	}
	while (next(&post, &time_ns, &counter)) {
		size_t at = counter * UINT64_C(0x9e3779b97f4a7c15) >> shift;
		while (table[at].time_ns != 0 && table[at].counter != counter)
			at = (at + 1) & (slots - 1);
		int64_t delay = time_ns - table[at].time_ns;
		if (table[at].time_ns != 0 && delay > 0 && delay < window_ns && arrived < most)
			delays[arrived++] = delay;
	}
	const uint64_t *sorted = radix_sort(delays, spare, arrived);
	printf("sent %zu, arrived %zu\n", sent, arrived);
	/* Nearest rank, in parts per million so that the rank is exact. */
	static const size_t ppm[] = {500000, 900000, 990000, 999000, 999900, 999990, 999999};
	for (size_t i = 0; arrived > 0 && i < sizeof ppm / sizeof *ppm; i++)
		printf("p%g %llu ns\n", ppm[i] / 1e4, (unsigned long long)sorted[(ppm[i] * arrived + 999999) / 1000000 - 1]);
	return 0;
}
