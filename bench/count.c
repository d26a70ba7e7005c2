/* SPDX-License-Identifier: MIT */
/*
 * count FILE [DATA...]: what a perf.data file holds, for benchmarks, in one pass and independent of every reader:
 *   samples=N lost=N repeated=N rounds=N bytes=N cut=N
 * DATA: the data.N of the directory that FILE is the "data" of; each holds records and nothing else.
 * lost: sum of LOST_SAMPLES. repeated: samples of a CPU that are older than one before them in the file, which a
 * ring never gives: they were written twice.
 * cut: bytes that the kernel gave with stack dumps and that were not stored.
 * Needs TIME and CPU in a sample_type that is the same for all events.
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

#include "perfdata/layout.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

enum { MAX_CPUS = 4096 };

struct totals {
	uint64_t samples, lost, repeated, rounds, bytes, cut;
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

static uint64_t cut_bytes(const struct perf_event_header *record, const struct perf_event_attr *attr)
{
	struct sample sample;
	uint64_t size;

	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER) || sample_decode(attr, record, &sample) ||
	    !sample.user_stack.ptr)
		return 0;
	memcpy(&size, (const char *)sample.user_stack.ptr - sizeof(size), sizeof(size));
	return attr->sample_stack_user - size;
}

static void count_record(const struct perf_event_header *record, const struct perf_event_attr *attr,
			 struct totals *totals)
{
	uint64_t type = attr->sample_type;
	size_t time, cpu;

	totals->rounds += record->type == RECORD_FINISHED_ROUND;
	if (record->type == PERF_RECORD_LOST_SAMPLES)
		totals->lost += word_at(record, 0);
	if (record->type != PERF_RECORD_SAMPLE)
		return;
	totals->samples++;
	totals->cut += cut_bytes(record, attr);
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

/* The whole file. NULL: cannot be. */
static const char *map_file(const char *path, size_t *ret_bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		return NULL;
	}
	*ret_bytes = (size_t)st.st_size;
	const char *file = st.st_size ? mmap(NULL, *ret_bytes, PROT_READ, MAP_PRIVATE, fd, 0) : "";
	close(fd);
	if (file == MAP_FAILED)
		perror(path);
	return file == MAP_FAILED ? NULL : file;
}

static int count_records(const char *file, uint64_t at, uint64_t end, const struct perf_event_attr *attr,
			 struct totals *totals)
{
	totals->bytes += end - at;
	while (at < end) {
		const struct perf_event_header *record = (const void *)(file + at);
		if (end - at < sizeof(*record) || record->size < sizeof(*record) || record->size > end - at) {
			fprintf(stderr, "count: bad record at %#llx\n", (unsigned long long)at);
			return 1;
		}
		count_record(record, attr, totals);
		at += record->size;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct totals totals;
	struct file_header header;
	struct perf_event_attr attr = {0};
	size_t bytes = 0;
	const char *file = argc > 1 ? map_file(argv[1], &bytes) : NULL;

	if (!file || bytes < sizeof(header)) {
		fprintf(stderr, "count: needs a perf.data file\n");
		return 2;
	}
	memcpy(&header, file, sizeof(header));
	size_t stored = header.attr_size - sizeof(struct file_section);
	memcpy(&attr, file + header.attrs.offset, stored < sizeof(attr) ? stored : sizeof(attr));
	if (count_records(file, header.data.offset, header.data.offset + header.data.size, &attr, &totals))
		return 1;
	for (int i = 2; i < argc; i++) {
		file = map_file(argv[i], &bytes);
		if (!file || count_records(file, 0, bytes, &attr, &totals))
			return 1;
	}
	printf("samples=%llu lost=%llu repeated=%llu rounds=%llu bytes=%llu cut=%llu\n",
	       (unsigned long long)totals.samples, (unsigned long long)totals.lost, (unsigned long long)totals.repeated,
	       (unsigned long long)totals.rounds, (unsigned long long)totals.bytes, (unsigned long long)totals.cut);
	return 0;
}
