/* SPDX-License-Identifier: MIT */
/*
 * count FILE: what a perf.data file holds, for benchmarks, in one pass and independent of every reader:
 *   samples=N lost=N repeated=N rounds=N bytes=N
 * lost: sum of LOST_SAMPLES. repeated: samples of a CPU that are older than one before them in the file, which a
 * ring never gives: they were written twice. Needs TIME and CPU in a sample_type that is the same for all events.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/layout.h"
#include "format/record.h"

enum { MAX_CPUS = 4096 };

struct totals {
	uint64_t samples, lost, repeated, rounds;
	uint64_t last_ns[MAX_CPUS];
};

static uint64_t word_at(const void *record, size_t index)
{
	uint64_t value;
	memcpy(&value, (const char *)record + sizeof(struct perf_event_header) + index * 8, sizeof(value));
	return value;
}

/* Places of time and CPU in a sample, in words; perf_event_open(2). */
static void find_fields(uint64_t type, size_t *ret_time, size_t *ret_cpu)
{
	size_t at = !!(type & PERF_SAMPLE_IDENTIFIER) + !!(type & PERF_SAMPLE_IP) + !!(type & PERF_SAMPLE_TID);

	*ret_time = at;
	at += !!(type & PERF_SAMPLE_TIME) + !!(type & PERF_SAMPLE_ADDR) + !!(type & PERF_SAMPLE_ID) +
	      !!(type & PERF_SAMPLE_STREAM_ID);
	*ret_cpu = at;
}

static void count_record(const struct perf_event_header *record, uint64_t type, struct totals *totals)
{
	size_t time, cpu;

	totals->rounds += record->type == RECORD_FINISHED_ROUND;
	if (record->type == PERF_RECORD_LOST_SAMPLES)
		totals->lost += word_at(record, 0);
	if (record->type != PERF_RECORD_SAMPLE)
		return;
	totals->samples++;
	if (!(type & PERF_SAMPLE_TIME) || !(type & PERF_SAMPLE_CPU))
		return;
	find_fields(type, &time, &cpu);
	uint64_t *last = &totals->last_ns[(uint32_t)word_at(record, cpu) % MAX_CPUS];
	uint64_t now = word_at(record, time);
	if (now < *last)
		totals->repeated++;
	else
		*last = now;
}

int main(int argc, char **argv)
{
	static struct totals totals;
	struct stat st;
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < sizeof(struct file_header)) {
		fprintf(stderr, "count: needs a perf.data file\n");
		return 2;
	}
	const char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	struct file_header header;
	struct perf_event_attr attr;
	memcpy(&header, file, sizeof(header));
	memcpy(&attr, file + header.attrs.offset, LAYOUT_ATTR_MIN_BYTES);
	uint64_t end = header.data.offset + header.data.size;
	for (uint64_t at = header.data.offset; at < end;) {
		const struct perf_event_header *record = (const void *)(file + at);
		if (record->size < sizeof(*record) || record->size > end - at) {
			fprintf(stderr, "count: bad record at %#llx\n", (unsigned long long)at);
			return 1;
		}
		count_record(record, attr.sample_type, &totals);
		at += record->size;
	}
	printf("samples=%llu lost=%llu repeated=%llu rounds=%llu bytes=%llu\n", (unsigned long long)totals.samples,
	       (unsigned long long)totals.lost, (unsigned long long)totals.repeated, (unsigned long long)totals.rounds,
	       (unsigned long long)header.data.size);
	return 0;
}
