/* SPDX-License-Identifier: MIT */
#include "record/hits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "format/record.h"
#include "format/sample.h"
#include "pack/extent_index.h"
#include "pack/survey.h"
#include "pack/zstd.h"
#include "record/hit_build_ids.h"
#include "record/hit_layout.h"
#include "record/hit_pages.h"
#include "record/hit_run.h"
#include "record/hit_world.h"
#include "record/synth_record.h"

enum {
	CHUNK_BYTES = 1 << 20, /* of the file at a time: stays in the cache */
	UNPACKED_BYTES = 1 << 18, /* at a time, too */
	USER_TOP_SHIFT = 56,   /* no user address has a higher bit: 5-level paging of x86, 52 bits of arm64 */
	USER_BOTTOM = 0x10000, /* nothing is mapped below: sysctl vm.mmap_min_addr */
};

struct layout_of_id {
	uint64_t id;
	size_t layout;
};

struct scan {
	struct hits *hits;
	const struct event_desc *events;
	struct hit_layout *layouts; /* heap; by event */
	size_t nr_layouts;
	bool uniform;             /* all layouts are equal: no need to look at ids */
	struct layout_of_id *ids; /* heap; ascending by id */
	size_t nr_ids;
	struct layout_of_id last_id; /* of the last look-up */
	int id_offset, id_distance;
	struct hit_plain plain;
	struct hit_pages pages;
	struct hit_world world;
	struct zstd_unpacker *unpacker; /* NULL: nothing compressed came yet */
	uint64_t *unpacked;             /* heap, UNPACKED_BYTES; records, the last of which may not be whole */
	size_t unpacked_len;
	bool inside; /* of a COMPRESSED record */
	uint64_t *aligned; /* heap, RECORD_MAX_BYTES; NULL: not yet needed */
	bool broken; /* a record was not what it should be */
	bool live;   /* pages are kept until the end: their room is fixed */
	struct survey *survey; /* owned; NULL: not wanted */
	uint64_t place;     /* in the file, of the next record; not that of one that was compressed */
	uint64_t sample_ns; /* of the last sample; 0: it has none */
};

static void scan_fini(struct scan *scan)
{
	free(scan->layouts);
	free(scan->ids);
	hit_pages_fini(&scan->pages);
	hit_world_fini(&scan->world);
	zstd_unpacker_free(scan->unpacker);
	free(scan->unpacked);
	free(scan->aligned);
	survey_free(scan->survey);
}

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int32_t s32_at(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int by_id(const void *a, const void *b)
{
	const struct layout_of_id *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

static int scan_init_ids(struct scan *scan)
{
	size_t nr = 0;

	for (size_t i = 0; i < scan->nr_layouts; i++)
		nr += scan->events[i].nr_ids;
	scan->ids = calloc(nr + 1, sizeof(*scan->ids));
	if (!scan->ids)
		return -ENOMEM;
	for (size_t i = 0; i < scan->nr_layouts; i++) {
		for (size_t k = 0; k < scan->events[i].nr_ids; k++)
			scan->ids[scan->nr_ids++] = (struct layout_of_id){scan->events[i].ids[k], i};
	}
	qsort(scan->ids, scan->nr_ids, sizeof(*scan->ids), by_id);
	return 0;
}

static int scan_init(struct scan *scan, const struct event_desc *events, size_t nr_events, struct hits *hits)
{
	*scan = (struct scan){.hits = hits, .events = events, .nr_layouts = nr_events, .uniform = true};
	scan->layouts = calloc(nr_events, sizeof(*scan->layouts));
	if (!scan->layouts)
		return -ENOMEM;
	for (size_t i = 0; i < nr_events; i++) {
		scan->layouts[i] = hit_layout_make(&events[i].attr);
		scan->uniform &= i == 0 || hit_layout_equal(&scan->layouts[0], &scan->layouts[i]);
	}
	scan->plain = hit_plain_make(scan->layouts, nr_events);
	scan->id_offset = sample_id_offset(&events[0].attr);
	scan->id_distance = sample_id_distance(&events[0].attr);
	return scan->uniform ? 0 : scan_init_ids(scan);
}

/* The event of a record, by its id. Records without a known id have the first event's layout. */
static size_t scan_event(struct scan *scan, const uint8_t *record, size_t size, bool is_sample)
{
	size_t at = is_sample ? (size_t)scan->id_offset : size - (size_t)scan->id_distance;
	int known = is_sample ? scan->id_offset : scan->id_distance;

	if (scan->uniform || known < 0 || (size_t)known > size || at + sizeof(uint64_t) > size)
		return 0;
	struct layout_of_id key = {.id = u64_at(record + at)};
	if (key.id != scan->last_id.id) {
		const struct layout_of_id *found =
			scan->nr_ids ? bsearch(&key, scan->ids, scan->nr_ids, sizeof(key), by_id) : NULL;
		scan->last_id = found ? *found : key;
	}
	return scan->last_id.layout;
}

static void scan_resolve(struct scan *scan)
{
	for (size_t i = 0; i <= scan->pages.mask; i++) {
		if (scan->pages.slots[i].page)
			hit_world_mark(&scan->world, &scan->pages.slots[i]);
	}
	hit_pages_clear(&scan->pages);
}

static int scan_hit(struct scan *scan, uint64_t ip, int32_t pid, uint64_t time_ns)
{
	int err = hit_pages_add(&scan->pages, ip, pid, time_ns);

	/* memory has a bound: what is mapped behind this place is not found for the pages so far */
	if (err == -ENOSPC && !scan->live) {
		scan_resolve(scan);
		err = hit_pages_add(&scan->pages, ip, pid, time_ns);
	}
	return err;
}

/* Whose address is it? false: nobody's that we know (a hypervisor, a guest). */
static bool mode_pid(uint16_t mode, int32_t task_pid, int32_t *ret)
{
	*ret = mode == PERF_RECORD_MISC_KERNEL ? HIT_KERNEL_PID : task_pid;
	return mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_USER;
}

/* Addresses, with marks between them that say whose the following ones are (perf_callchain_context). */
static int scan_chain(struct scan *scan, const uint8_t *ips, uint64_t nr, int32_t task_pid, uint64_t time_ns)
{
	bool known = false;
	int32_t pid = 0;
	int err = 0;

	for (uint64_t i = 0; !err && i < nr; i++) {
		uint64_t ip = u64_at(ips + i * sizeof(ip));

		if (ip >= (uint64_t)PERF_CONTEXT_MAX) {
			known = ip == (uint64_t)PERF_CONTEXT_KERNEL || ip == (uint64_t)PERF_CONTEXT_USER;
			pid = ip == (uint64_t)PERF_CONTEXT_KERNEL ? HIT_KERNEL_PID : task_pid;
		} else if (known && ip) {
			err = scan_hit(scan, ip, pid, time_ns);
		}
	}
	return err;
}

static int scan_sample_chain(struct scan *scan, const struct hit_layout *layout, const uint8_t *record,
			     size_t size, int32_t pid, uint64_t time_ns)
{
	size_t at;
	int64_t nr = hit_layout_chain(layout, record, size, &at);

	if (nr < 0) {
		scan->broken = true;
		return 0;
	}
	return scan_chain(scan, record + at, (uint64_t)nr, pid, time_ns);
}

/* Records behind compressed ones may lie anywhere. NULL: out of memory. */
static const uint8_t *align(struct scan *scan, const uint8_t *record, size_t size)
{
	if ((uintptr_t)record % 8 == 0)
		return record;
	if (!scan->aligned)
		scan->aligned = malloc(RECORD_MAX_BYTES + 1);
	return scan->aligned ? memcpy(scan->aligned, record, size) : NULL;
}

/* Any word of the stack may be a return address. */
static int scan_stack(struct scan *scan, size_t event, const uint8_t *record, int32_t pid, uint64_t time_ns)
{
	struct sample sample;
	int err = 0;

	if (!record)
		return -ENOMEM;
	if (sample_decode(&scan->events[event].attr, (const void *)record, &sample)) {
		scan->broken = true;
		return 0;
	}
	const uint8_t *words = sample.user_stack.ptr;
	for (size_t at = 0; !err && at + sizeof(uint64_t) <= sample.user_stack.len; at += sizeof(uint64_t)) {
		uint64_t word = u64_at(words + at);
		if (word >= USER_BOTTOM && word >> USER_TOP_SHIFT == 0)
			err = scan_hit(scan, word, pid, time_ns);
	}
	return err;
}

static void reach(struct hits *hits, uint64_t first_ns, uint64_t last_ns)
{
	if (hits->first_ns == 0 || first_ns < hits->first_ns)
		hits->first_ns = first_ns;
	if (last_ns > hits->last_ns)
		hits->last_ns = last_ns;
}

static int scan_sample(struct scan *scan, const uint8_t *record, size_t size, uint16_t misc)
{
	size_t event = scan_event(scan, record, size, true);
	const struct hit_layout *layout = &scan->layouts[event];
	int32_t task_pid = 0, pid;
	uint64_t time_ns = 0;
	int err = 0;

	scan->hits->nr_samples++;
	scan->sample_ns = 0;
	if (layout->ip + 8 > size || layout->tid + 8 > size || layout->time + 8 > size) {
		scan->broken = true;
		return 0;
	}
	if (layout->time) {
		time_ns = scan->sample_ns = u64_at(record + layout->time);
		reach(scan->hits, time_ns, time_ns);
	}
	if (layout->tid)
		task_pid = s32_at(record + layout->tid);
	if (layout->ip && mode_pid(misc & PERF_RECORD_MISC_CPUMODE_MASK, task_pid, &pid))
		err = scan_hit(scan, u64_at(record + layout->ip), pid, time_ns);
	if (!err && layout->has_chain)
		err = scan_sample_chain(scan, layout, record, size, task_pid, time_ns);
	if (!err && layout->has_stack)
		err = scan_stack(scan, event, align(scan, record, size), task_pid, time_ns);
	return err;
}

/* The time in the trailer of a record that is no sample, whose own fields take `fixed` bytes. */
static uint64_t trailer_time(const struct hit_layout *layout, const uint8_t *record, size_t size,
			     size_t fixed)
{
	if (layout->trailer_time == 0 || fixed + layout->trailer_time > size)
		return 0;
	return u64_at(record + size - layout->trailer_time);
}

static int scan_map(struct scan *scan, const struct hit_layout *layout, const uint8_t *record,
		    const struct perf_event_header *header, bool is_mmap2)
{
	struct record_mmap2 fields = {0};
	size_t fixed = is_mmap2 ? sizeof(struct record_mmap2) : sizeof(struct record_mmap);

	if (fixed + layout->trailer_bytes > header->size) {
		scan->broken = true;
		return 0;
	}
	if (header->misc & PERF_RECORD_MISC_MMAP_DATA)
		return 0; /* nothing runs there */
	memcpy(&fields, record, fixed);
	const char *name = (const char *)record + fixed;
	struct hit_mapping mapping = {
		.pid = (int32_t)fields.pid,
		.kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL,
		.start = fields.addr,
		.bytes = fields.len,
		.time_ns = trailer_time(layout, record, header->size, fixed),
		/* with a build-id in its place there is no inode */
		.ino = header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID ? 0 : fields.ino,
		.name = {name, strnlen(name, header->size - fixed - layout->trailer_bytes)},
	};
	return hit_world_map(&scan->world, &mapping);
}

static int scan_fork(struct scan *scan, const struct hit_layout *layout, const uint8_t *record,
		     const struct perf_event_header *header)
{
	struct record_fork fields;

	if (header->size < sizeof(fields)) {
		scan->broken = true;
		return 0;
	}
	memcpy(&fields, record, sizeof(fields));
	uint64_t time_ns = trailer_time(layout, record, header->size, sizeof(fields));
	if (fields.pid == fields.ppid)
		return 0; /* a thread: it has the maps of its process */
	if (header->misc & RECORD_MISC_FORK_EXEC)
		return hit_world_exec(&scan->world, (int32_t)fields.pid, time_ns);
	return hit_world_fork(&scan->world, (int32_t)fields.pid, (int32_t)fields.ppid, time_ns);
}

static int scan_comm(struct scan *scan, const struct hit_layout *layout, const uint8_t *record,
		     const struct perf_event_header *header)
{
	if (!(header->misc & PERF_RECORD_MISC_COMM_EXEC))
		return 0;
	if (header->size < sizeof(struct record_comm)) {
		scan->broken = true;
		return 0;
	}
	return hit_world_exec(&scan->world, s32_at(record + offsetof(struct record_comm, pid)),
			      trailer_time(layout, record, header->size, sizeof(struct record_comm)));
}

/* For the index. */
static void survey(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	uint64_t time_ns = 0;

	if (!scan->survey)
		return;
	if (header->type == PERF_RECORD_SAMPLE && !scan->inside) {
		if (scan->sample_ns && survey_room(scan->survey, scan->place))
			survey_samples(scan->survey, header->size, 1, scan->sample_ns, scan->sample_ns);
		else
			survey_record(scan->survey, scan->place, record, scan->sample_ns);
		return;
	}
	if (header->type == PERF_RECORD_SAMPLE)
		time_ns = scan->sample_ns;
	else if (header->type < RECORD_USER_FIRST)
		time_ns = trailer_time(&scan->layouts[scan_event(scan, record, header->size, false)], record, header->size,
				       sizeof(*header));
	if (scan->inside)
		survey_unpacked(scan->survey, record, time_ns);
	else
		survey_record(scan->survey, scan->place, record, time_ns);
}

static void survey_compressed(struct scan *scan, struct span payload)
{
	struct zstd_frame frame;
	bool starts = zstd_frame_start(payload, &frame);

	if (scan->survey)
		survey_packed(scan->survey, scan->place, (uint16_t)(payload.len + sizeof(struct perf_event_header)),
			      !starts ? 0 : frame.bytes ? frame.bytes : UINT64_MAX);
}

static int scan_bytes(struct scan *scan, const uint8_t *bytes, size_t len, size_t *ret_used);

static int start_unpacking(struct scan *scan)
{
	if (!scan->unpacked)
		scan->unpacked = malloc(UNPACKED_BYTES);
	if (!scan->unpacked)
		return -ENOMEM;
	return scan->unpacker ? 0 : zstd_unpacker_new(&scan->unpacker);
}

static int scan_compressed(struct scan *scan, struct span payload)
{
	uint8_t *unpacked;
	int64_t got = 0;
	size_t used;
	int err = scan->inside ? -EBADMSG : start_unpacking(scan);

	if (!err)
		survey_compressed(scan, payload);
	unpacked = (uint8_t *)scan->unpacked;
	scan->inside = true;
	while (!err) {
		size_t kept = scan->unpacked_len;
		got = zstd_unpack(scan->unpacker, &payload, unpacked + kept, UNPACKED_BYTES - kept);
		if (got <= 0)
			break;
		scan->unpacked_len += (size_t)got;
		err = scan_bytes(scan, unpacked, scan->unpacked_len, &used);
		scan->unpacked_len -= used;
		memmove(unpacked, unpacked + used, scan->unpacked_len);
	}
	scan->inside = false;
	if (err || got >= 0)
		return err;
	scan->broken = true;
	zstd_unpack_reset(scan->unpacker);
	scan->unpacked_len = 0;
	return 0;
}

/* `record` has header->size readable bytes. */
static int look_at(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	if (header->type == RECORD_COMPRESSED)
		return scan_compressed(scan, (struct span){record + sizeof(*header), header->size - sizeof(*header)});
	if (scan->hits->losses) {
		int err = loss_times_take(scan->hits->losses, record, header);
		if (err)
			return err;
	}
	if (header->type == PERF_RECORD_SAMPLE)
		return scan_sample(scan, record, header->size, header->misc);
	if (header->type != PERF_RECORD_MMAP && header->type != PERF_RECORD_MMAP2 &&
	    header->type != PERF_RECORD_FORK && header->type != PERF_RECORD_COMM)
		return 0;
	const struct hit_layout *layout = &scan->layouts[scan_event(scan, record, header->size, false)];
	switch (header->type) {
	case PERF_RECORD_FORK:
		return scan_fork(scan, layout, record, header);
	case PERF_RECORD_COMM:
		return scan_comm(scan, layout, record, header);
	default:
		return scan_map(scan, layout, record, header, header->type == PERF_RECORD_MMAP2);
	}
}

static int scan_record(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	int err = look_at(scan, record, header);

	if (!err && header->type != RECORD_COMPRESSED)
		survey(scan, record, header);
	if (!scan->inside)
		scan->place += header->size;
	return err;
}

/* All whole records of the bytes. *ret_used: how many bytes they take. -EBADMSG: here is no record. */
static int scan_bytes(struct scan *scan, const uint8_t *bytes, size_t len, size_t *ret_used)
{
	struct perf_event_header header;
	size_t at = 0;
	int err = 0;

	while (!err && len - at >= sizeof(header)) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header))
			err = -EBADMSG;
		else if (header.size > len - at)
			break;
		else
			err = scan_record(scan, bytes + at, &header);
		at += err ? 0 : header.size;
	}
	*ret_used = at;
	return err;
}

/*
 * Read, not mapped: whoever cuts the file meanwhile would kill us with SIGBUS, and a byte that was checked
 * must not change before it is used.
 */
static int scan_file(struct scan *scan, int fd, uint64_t offset, uint64_t bytes)
{
	AUTO_FREE uint8_t *chunk = malloc(CHUNK_BYTES);
	size_t kept = 0, used;

	if (!chunk)
		return -ENOMEM;
	scan->place = offset;
	while (bytes > 0) {
		size_t want = CHUNK_BYTES - kept < bytes ? CHUNK_BYTES - kept : (size_t)bytes;
		ssize_t got = pread(fd, chunk + kept, want, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
		kept += (size_t)got;
		int err = scan_bytes(scan, chunk, kept, &used);
		if (err)
			return err;
		kept -= used;
		memmove(chunk, chunk + used, kept);
	}
	return kept ? -EBADMSG : 0;
}

enum {
	LIVE_PAGES = 1 << 15,
	LIVE_KEPT_BYTES = 8 << 20,
	LIVE_SAMPLE_BYTES = 96, /* header and the fields of fixed place, id and time among them; perf_event_open(2) */
};

struct hits_live {
	struct scan scan; /* its world stays empty */
	struct hits hits;
	uint64_t start, end; /* offsets in the file; 0: nothing came yet, or it is for a stage */
	uint64_t staged_bytes;
	bool gave_up;
	uint8_t *kept; /* heap; copies of records that are looked at in the end: all but samples, and the front of some */
	size_t kept_bytes;
	const uint8_t *sample; /* the last one of this visit, while it lasts; NULL: none, or it is kept */
	_Alignas(8) uint8_t joined[UINT16_MAX + 1]; /* a record that came in two parts */
};

int hits_live_new(const struct event_desc *events, size_t nr_events, struct hits_live **ret)
{
	struct hits_live *live = calloc(1, sizeof(*live));
	int err = live ? scan_init(&live->scan, events, nr_events, &live->hits) : -ENOMEM;

	for (size_t i = 0; i < nr_events && !err; i++)
		if (live->scan.layouts[i].has_stack)
			err = -EOPNOTSUPP;
	if (!err)
		err = hit_pages_init_fixed(&live->scan.pages, LIVE_PAGES);
	if (!err)
		err = survey_new(&live->scan.survey);
	if (!err) {
		live->scan.live = true;
		live->kept = calloc(1, LIVE_KEPT_BYTES);
		err = live->kept ? 0 : -ENOMEM;
	}
	if (err)
		hits_live_free(live);
	else
		*ret = live;
	return err;
}

void hits_live_free(struct hits_live *live)
{
	if (!live)
		return;
	scan_fini(&live->scan);
	free(live->kept);
	free(live);
}

/* -ENOSPC: it does not fit any more. */
static int keep(struct hits_live *live, const uint8_t *record, size_t size)
{
	if (size > LIVE_KEPT_BYTES - live->kept_bytes)
		return -ENOSPC;
	memcpy(live->kept + live->kept_bytes, record, size);
	live->kept_bytes += size;
	return 0;
}

/* The front of the last sample of a visit, and of the last one before a gap: loss_times needs no other. */
static int keep_sample(struct hits_live *live)
{
	_Alignas(8) uint8_t front[LIVE_SAMPLE_BYTES];
	struct perf_event_header header;

	if (!live->sample)
		return 0;
	memcpy(&header, live->sample, sizeof(header));
	header.size = header.size < sizeof(front) ? header.size : (uint16_t)sizeof(front);
	memcpy(front, live->sample, header.size);
	memcpy(front, &header, sizeof(header));
	live->sample = NULL;
	return keep(live, front, header.size);
}

static int live_look_at(struct hits_live *live, const uint8_t *record, const struct perf_event_header *header)
{
	int err = 0;

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		live->sample = record;
		return scan_sample(&live->scan, record, header->size, header->misc);
	case PERF_RECORD_LOST:
		err = keep_sample(live);
		return err ? err : keep(live, record, header->size);
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return keep(live, record, header->size);
	default:
		return 0;
	}
}

static int live_record(struct hits_live *live, const uint8_t *record, const struct perf_event_header *header)
{
	int err = live_look_at(live, record, header);

	if (!live->staged_bytes)
		survey(&live->scan, record, header);
	live->scan.place += header->size;
	return err;
}

/* The plain samples that the bytes begin with: nearly all that passes here. Returns how many bytes they take. */
static size_t live_run(struct hits_live *live, const uint8_t *bytes, size_t len)
{
	struct scan *scan = &live->scan;
	uint64_t room = live->staged_bytes ? UINT64_MAX : survey_room(scan->survey, scan->place);
	struct hit_run run;

	hit_run_take(&scan->plain, &scan->pages, (struct span){bytes, len}, room, &run);
	if (!run.nr)
		return 0;
	scan->hits->nr_samples += run.nr;
	reach(scan->hits, run.first_ns, run.last_ns);
	if (!live->staged_bytes)
		survey_samples(scan->survey, run.bytes, run.nr, run.first_ns, run.last_ns);
	scan->place += run.bytes;
	live->sample = bytes + run.last;
	return run.bytes;
}

/* Whole records; returns how many bytes they take, or SIZE_MAX. */
static size_t live_records(struct hits_live *live, const uint8_t *bytes, size_t len)
{
	struct perf_event_header header;
	size_t at = 0;

	for (;;) {
		at += live_run(live, bytes + at, len - at);
		if (len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size > len - at)
			break;
		if (header.size < sizeof(header) || live_record(live, bytes + at, &header))
			return SIZE_MAX;
		at += header.size;
	}
	return at;
}

/* The record that begins at the end of one span and ends in the next; returns its bytes in the latter, or SIZE_MAX. */
static size_t live_joined(struct hits_live *live, struct span front, struct span back)
{
	struct perf_event_header header;

	if (!front.len)
		return 0;
	if (front.len < sizeof(header)) /* a ring is a multiple of 8 bytes, as are records */
		return SIZE_MAX;
	memcpy(&header, front.ptr, sizeof(header));
	if (header.size - front.len > back.len)
		return SIZE_MAX;
	memcpy(live->joined, front.ptr, front.len);
	memcpy(live->joined + front.len, back.ptr, header.size - front.len);
	return live_record(live, live->joined, &header) ? SIZE_MAX : header.size - front.len;
}

static bool live_see(struct hits_live *live, const struct span spans[], unsigned nr_spans)
{
	const uint8_t *first = spans[0].ptr;
	size_t used = live_records(live, first, spans[0].len);

	if (used == SIZE_MAX)
		return false;
	if (nr_spans < 2)
		return used == spans[0].len;
	size_t joined = live_joined(live, (struct span){first + used, spans[0].len - used}, spans[1]);
	if (joined == SIZE_MAX)
		return false;
	size_t left = spans[1].len - joined;
	return live_records(live, (const uint8_t *)spans[1].ptr + joined, left) == left;
}

void hits_live_see(struct hits_live *live, uint64_t offset, const struct span spans[], unsigned nr_spans)
{
	if (live->gave_up)
		return;
	if (!live->end)
		live->start = live->end = live->scan.place = offset;
	live->gave_up = offset != live->end || !live_see(live, spans, nr_spans) || keep_sample(live);
	live->end += span_total(spans, nr_spans);
}

void hits_live_see_staged(struct hits_live *live, const struct span spans[], unsigned nr_spans)
{
	live->staged_bytes += span_total(spans, nr_spans);
	if (!live->gave_up)
		live->gave_up = !live_see(live, spans, nr_spans) || keep_sample(live);
}

/* Of the file that the region is in. */
static const struct extent_fields *next_extent(const struct hits_region *region, size_t *at)
{
	while (*at < region->extents->nr) {
		const struct extent_fields *fields = &region->extents->infos[(*at)++].fields;
		if (fields->part == region->part)
			return fields;
	}
	return NULL;
}

/* Is what was seen what the extents hold? Not after an error, when the last of them are gone. */
static bool lives_cover_extents(const struct hits_region *region)
{
	uint64_t seen = 0, held = 0, end = region->offset;
	const struct extent_fields *fields;

	for (size_t i = 0; i < region->nr_lives; i++) {
		if (!region->lives[i] || region->lives[i]->gave_up)
			return false;
		seen += region->lives[i]->staged_bytes;
	}
	for (size_t at = 0; (fields = next_extent(region, &at));) {
		if (fields->offset < end)
			return false;
		end = fields->offset + fields->packed_bytes;
		held += fields->bytes;
	}
	return held && held == seen && end <= region->offset + region->bytes;
}

static bool live_covers(const struct hits_live *live, const struct hits_region *region)
{
	return live && live->end && !live->gave_up && live->start >= region->offset && live->end <= region->offset + region->bytes;
}

/* Can they stand for a part of the region? */
static bool is_covered(const struct hits_region *region)
{
	if (!region->nr_lives)
		return false;
	return region->extents ? lives_cover_extents(region) : live_covers(region->lives[0], region);
}

/* What was kept; the samples were counted, and places noted, when they went by. */
static int scan_kept(struct scan *scan, const struct hits_live *live)
{
	struct perf_event_header header;
	int err = 0;

	for (size_t at = 0; at < live->kept_bytes && !err; at += header.size) {
		memcpy(&header, live->kept + at, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE)
			err = look_at(scan, live->kept + at, &header);
		else if (scan->hits->losses)
			err = loss_times_take(scan->hits->losses, live->kept + at, &header);
	}
	return err;
}

static void add_hits(const struct hits *from, struct hits *to)
{
	to->nr_samples += from->nr_samples;
	if (from->first_ns && (!to->first_ns || from->first_ns < to->first_ns))
		to->first_ns = from->first_ns;
	if (from->last_ns > to->last_ns)
		to->last_ns = from->last_ns;
	if (to->losses)
		loss_times_reach(to->losses, from->first_ns, from->last_ns);
}

static int scan_lives(struct scan *scan, const struct hits_region *region)
{
	int err = 0;

	for (size_t i = 0; i < region->nr_lives && !err; i++) {
		err = scan_kept(scan, region->lives[i]);
		add_hits(&region->lives[i]->hits, scan->hits);
		scan->broken |= region->lives[i]->scan.broken;
	}
	return err;
}

/* Between extents there are marks, which are headers alone and tell nothing here; what else is put there is longer. */
static int scan_gap(struct scan *scan, const struct hits_region *region, uint64_t from, uint64_t to)
{
	return to - from > sizeof(struct perf_event_header) ? scan_file(scan, region->fd, from, to - from) : 0;
}

/* Where what was seen begins and ends. */
static void seen_range(const struct hits_region *region, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct extent_fields *fields;
	size_t at = 0;

	*ret_start = region->lives[0]->start;
	*ret_end = region->lives[0]->end;
	if (region->extents && (fields = next_extent(region, &at))) {
		*ret_start = fields->offset;
		*ret_end = fields->offset + fields->packed_bytes;
	}
}

/* What stands around what was seen, and what was mapped meanwhile. The pages are marked when all is in. */
static int scan_around(struct scan *scan, const struct hits_region *region)
{
	const struct extent_fields *fields;
	uint64_t start, end;

	seen_range(region, &start, &end);
	int err = scan_gap(scan, region, region->offset, start);
	if (!err)
		err = scan_lives(scan, region);
	for (size_t at = 0; region->extents && !err && (fields = next_extent(region, &at));) {
		if (fields->offset > end)
			err = scan_gap(scan, region, end, fields->offset);
		end = fields->offset + fields->packed_bytes;
	}
	return err ? err : scan_gap(scan, region, end, region->offset + region->bytes);
}

static void mark_lives(struct scan *scan, const struct hits_region *region)
{
	for (size_t k = 0; k < region->nr_lives; k++) {
		const struct hit_pages *pages = &region->lives[k]->scan.pages;
		for (size_t i = 0; i <= pages->mask; i++)
			if (pages->slots[i].page)
				hit_world_mark(&scan->world, &pages->slots[i]);
	}
}

static int list_extents(const struct scan *scan, const struct hits_region regions[], size_t nr_regions)
{
	struct extent_list *list = scan->hits->extents;
	int err = list ? survey_list(scan->survey, list) : 0;

	for (size_t i = 0; list && i < nr_regions && !err; i++) {
		size_t before = list->nr;
		if (regions[i].extents || !is_covered(&regions[i]))
			continue;
		err = survey_list(regions[i].lives[0]->scan.survey, list);
		for (size_t k = before; k < list->nr; k++)
			list->infos[k].fields.part = regions[i].part;
	}
	if (list)
		extent_list_sort(list);
	return err;
}

int hits_scan(const struct hits_region regions[], size_t nr_regions, const struct event_desc *events, size_t nr_events,
	      struct hits *ret)
{
	__attribute__((cleanup(scan_fini))) struct scan scan = {0};

	ret->first_ns = ret->last_ns = ret->nr_samples = 0;
	if (nr_events == 0)
		return -EINVAL;
	int err = scan_init(&scan, events, nr_events, ret);
	err = err ? err : hit_pages_init(&scan.pages);
	err = err ? err : hit_world_init(&scan.world);
	bool cut = false;
	if (!err && ret->extents)
		err = survey_new(&scan.survey);
	for (size_t i = 0; i < nr_regions && !err; i++) {
		if (scan.survey)
			survey_part(scan.survey, regions[i].part);
		err = is_covered(&regions[i])
			? scan_around(&scan, &regions[i])
			: scan_file(&scan, regions[i].fd, regions[i].offset, regions[i].bytes);
		cut |= err == -EBADMSG;
		err = err == -EBADMSG ? 0 : err;
	}
	if (err)
		return err;
	scan_resolve(&scan);
	for (size_t i = 0; ret->all && i < scan.world.nr_objects; i++)
		scan.world.objects[i].hit = true;
	for (size_t i = 0; i < nr_regions; i++)
		if (is_covered(&regions[i]))
			mark_lives(&scan, &regions[i]);
	err = list_extents(&scan, regions, nr_regions);
	if (err)
		return err;
	int ids_err = hit_build_ids_put(&scan.world, ret->build_ids);
	return ids_err ? ids_err : cut || scan.broken ? -EBADMSG : 0;
}
