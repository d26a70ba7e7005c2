/* SPDX-License-Identifier: MIT */
#include "bench_verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/span.h"
#include "perfdata/record.h"
#include "synthetic_ring.h"

struct check {
	const struct synthetic_rings *rings;
	const struct synthetic_sample *sample; /* as it should be, but for its numbers */
	size_t sample_bytes;
	uint64_t *next; /* number of the next sample, by ring */
	struct diag *reterr;
};

static int check_sample(struct check *check, const uint8_t *record, uint64_t offset)
{
	struct synthetic_sample found;

	memcpy(&found, record, sizeof(found));
	if (found.ring >= check->rings->nr)
		return diag_set(check->reterr, -EBADMSG, "offset %llu: ring %llu does not exist",
				(unsigned long long)offset, (unsigned long long)found.ring);
	if (found.number != check->next[found.ring])
		return diag_set(check->reterr, -EBADMSG, "offset %llu: sample %llu of ring %llu where %llu should be",
				(unsigned long long)offset, (unsigned long long)found.number,
				(unsigned long long)found.ring, (unsigned long long)check->next[found.ring]);
	if (memcmp(record + sizeof(found), check->sample + 1, check->sample_bytes - sizeof(found)))
		return diag_set(check->reterr, -EBADMSG, "offset %llu: the sample is damaged",
				(unsigned long long)offset);
	check->next[found.ring]++;
	return 0;
}

static int check_lost(struct check *check, const uint8_t *record, uint64_t offset)
{
	struct synthetic_lost found;

	memcpy(&found, record, sizeof(found));
	if (found.ring >= check->rings->nr || !found.lost)
		return diag_set(check->reterr, -EBADMSG, "offset %llu: a LOST record that makes no sense",
				(unsigned long long)offset);
	check->next[found.ring] += found.lost;
	return 0;
}

static int check_record(struct check *check, const struct perf_event_header *header, const uint8_t *record,
			uint64_t offset)
{
	if (header->type == PERF_RECORD_SAMPLE && header->size == check->sample_bytes)
		return check_sample(check, record, offset);
	if (header->type == PERF_RECORD_LOST && header->size == sizeof(struct synthetic_lost))
		return check_lost(check, record, offset);
	if (header->type == RECORD_FINISHED_ROUND && header->size == sizeof(*header))
		return 0;
	return diag_set(check->reterr, -EBADMSG, "offset %llu: a record of type %u and %u bytes that was not generated",
			(unsigned long long)offset, header->type, header->size);
}

static int check_all(struct check *check, struct span bytes)
{
	struct cursor cursor = cursor_over(bytes);

	while (cursor_left(&cursor)) {
		const uint8_t *record = cursor.at;
		uint64_t offset = (uint64_t)(record - (const uint8_t *)bytes.ptr);
		struct perf_event_header header;
		cursor_copy(&cursor, &header, sizeof(header));
		if (cursor.bad || header.size < sizeof(header) || !cursor_take(&cursor, header.size - sizeof(header)))
			return diag_set(check->reterr, -EBADMSG, "offset %llu: a record that is cut",
					(unsigned long long)offset);
		int err = check_record(check, &header, record, offset);
		if (err)
			return err;
	}
	for (size_t i = 0; i < check->rings->nr; i++) {
		const struct synthetic_ring *ring = &check->rings->rings[i];
		if (check->next[i] != ring->made - ring->untold)
			return diag_set(check->reterr, -EBADMSG,
					"ring %zu: samples up to %llu are stored, but %llu were made, the last %llu of "
					"them lost",
					i, (unsigned long long)check->next[i], (unsigned long long)ring->made,
					(unsigned long long)ring->untold);
	}
	return 0;
}

int bench_verify(int fd, uint64_t bytes, size_t sample_bytes, const struct synthetic_rings *rings, struct diag *reterr)
{
	AUTO_FREE struct synthetic_sample *sample = malloc(sample_bytes);
	AUTO_FREE uint64_t *next = calloc(rings->nr, sizeof(*next));
	struct check check = {rings, sample, sample_bytes, next, reterr};
	struct stat stat;

	if (!sample || !next)
		return diag_set(reterr, -ENOMEM, "out of memory");
	synthetic_sample_init(sample, sample_bytes);
	if (fstat(fd, &stat))
		return diag_set(reterr, -errno, "%s", strerror(errno));
	if ((uint64_t)stat.st_size != bytes)
		return diag_set(reterr, -EBADMSG, "%lld bytes are in the file, not %llu", (long long)stat.st_size,
				(unsigned long long)bytes);
	if (!bytes)
		return check_all(&check, (struct span){"", 0});
	void *mapping = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapping == MAP_FAILED)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	int err = check_all(&check, (struct span){mapping, bytes});
	munmap(mapping, bytes);
	return err;
}
