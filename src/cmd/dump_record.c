/* SPDX-License-Identifier: MIT */
#include "cmd/dump_record.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/cursor.h"
#include "cmd/dump_sample.h"
#include "read/session.h"

/* A text that fills the rest of a record; never read past its end, NUL or not. */
struct text {
	int len;
	const char *ptr;
};

static struct text take_text(struct cursor *at)
{
	size_t left = cursor_left(at);
	const char *ptr = (const char *)at->at;

	return (struct text){(int)strnlen(ptr, left), ptr};
}

static void print_mmap(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	uint64_t addr = cursor_u64(at), len = cursor_u64(at), pgoff = cursor_u64(at);
	struct text name = take_text(at);

	fprintf(to, " %d/%d: [%#" PRIx64 "(%#" PRIx64 ") @ %#" PRIx64 "]: %c %.*s\n", pid, tid, addr, len, pgoff,
		misc & PERF_RECORD_MISC_MMAP_DATA ? 'r' : 'x', name.len, name.ptr);
}

/* Device and inode, or, with a bit in misc, the build-id in the same 24 bytes. */
static void print_file(struct cursor *at, uint16_t misc, FILE *to)
{
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		unsigned size = cursor_u8(at);
		cursor_u8(at);
		cursor_u16(at);
		const uint8_t *id = cursor_take(at, 20);
		fputs(" <", to);
		for (unsigned i = 0; id && i < size && i < 20; i++)
			fprintf(to, "%02x", id[i]);
		fputs(">]: ", to);
		return;
	}
	unsigned major = cursor_u32(at), minor = cursor_u32(at);
	uint64_t inode = cursor_u64(at), generation = cursor_u64(at);
	fprintf(to, " %02x:%02x %" PRIu64 " %" PRIu64 "]: ", major, minor, inode, generation);
}

static void print_mmap2(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	uint64_t addr = cursor_u64(at), len = cursor_u64(at), pgoff = cursor_u64(at);

	fprintf(to, " %d/%d: [%#" PRIx64 "(%#" PRIx64 ") @ %#" PRIx64, pid, tid, addr, len, pgoff);
	print_file(at, misc, to);
	/* PROT_* and MAP_SHARED of mmap(2) */
	uint32_t prot = cursor_u32(at), flags = cursor_u32(at);
	struct text name = take_text(at);
	fprintf(to, "%c%c%c%c %.*s\n", prot & 1 ? 'r' : '-', prot & 2 ? 'w' : '-', prot & 4 ? 'x' : '-',
		flags & 1 ? 's' : 'p', name.len, name.ptr);
}

static void print_comm(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	struct text comm = take_text(at);

	fprintf(to, "%s: %.*s:%d/%d\n", misc & PERF_RECORD_MISC_COMM_EXEC ? " exec" : "", comm.len, comm.ptr, pid, tid);
}

static void print_fork(struct cursor *at, FILE *to)
{
	int pid = (int)cursor_u32(at), ppid = (int)cursor_u32(at);
	int tid = (int)cursor_u32(at), ptid = (int)cursor_u32(at);

	fprintf(to, "(%d:%d):(%d:%d)\n", pid, tid, ppid, ptid);
}

static void print_switch(struct cursor *at, const struct perf_event_header *header, FILE *to)
{
	bool out = header->misc & PERF_RECORD_MISC_SWITCH_OUT;
	const char *what = !out                                                  ? "IN         "
			   : header->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? "OUT preempt"
										 : "OUT        ";

	if (header->type == PERF_RECORD_SWITCH) {
		fprintf(to, " %s\n", what);
		return;
	}
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	fprintf(to, " %s  %s pid/tid: %5d/%-5d\n", what, out ? "next" : "prev", pid, tid);
}

static void print_namespaces(struct cursor *at, FILE *to)
{
	static const char *const names[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	uint64_t nr = cursor_u64(at);

	fprintf(to, " %d/%d - nr_namespaces: %" PRIu64 "\n\t\t[", pid, tid, nr);
	for (uint64_t i = 0; i < nr && cursor_left(at) >= 16; i++) {
		uint64_t device = cursor_u64(at), inode = cursor_u64(at);
		fprintf(to, "%" PRIu64 "/%s: %" PRIu64 "/%#" PRIx64 "%s", i, i < 7 ? names[i] : "unknown", device, inode,
			i + 1 == nr    ? "]\n"
			: i % 4 == 3 ? ", \n\t\t "
				       : ", ");
	}
}

static void print_ksymbol(struct cursor *at, FILE *to)
{
	uint64_t addr = cursor_u64(at);
	uint32_t len = cursor_u32(at);
	unsigned type = cursor_u16(at), flags = cursor_u16(at);
	struct text name = take_text(at);

	fprintf(to, " addr %" PRIx64 " len %u type %u flags 0x%x name %.*s\n", addr, len, type, flags, name.len, name.ptr);
}

static void print_id_index(struct cursor *at, FILE *to)
{
	uint64_t nr = cursor_u64(at);

	fprintf(to, " nr: %" PRIu64 "\n", nr);
	for (uint64_t i = 0; i < nr && cursor_left(at) >= 32; i++) {
		uint64_t id = cursor_u64(at), index = cursor_u64(at);
		int64_t cpu = (int64_t)cursor_u64(at), tid = (int64_t)cursor_u64(at);
		fprintf(to, " ... id: %" PRIu64 "  idx: %" PRIu64 "  cpu: %" PRId64 "  tid: %" PRId64 "\n", id, index, cpu,
			tid);
	}
}

static void print_thread_map(struct cursor *at, FILE *to)
{
	uint64_t nr = cursor_u64(at);

	fprintf(to, " nr: %" PRIu64 " thread%s: ", nr, nr == 1 ? "" : "s");
	for (uint64_t i = 0; i < nr && cursor_left(at) >= 24; i++) {
		fprintf(to, "%s%" PRId64, i ? "," : "", (int64_t)cursor_u64(at));
		cursor_take(at, 16); /* its name */
	}
	fputs("\n: unhandled!\n", to);
}

/* A mask whose words are 4 or 8 bytes long. */
static void take_mask(struct cursor *at, struct cpuset *cpus)
{
	unsigned nr = cursor_u16(at), bytes = cursor_u16(at);

	if (bytes == 8)
		cursor_u32(at);
	for (unsigned i = 0; i < nr && cursor_left(at) >= bytes; i++) {
		uint64_t word = bytes == 8 ? cursor_u64(at) : cursor_u32(at);
		for (unsigned bit = 0; bit < bytes * 8; bit++)
			if (word >> bit & 1)
				cpuset_add(cpus, i * bytes * 8 + bit);
	}
}

/* Kinds 0: numbers, 1: mask, 2: range; perf's PERF_CPU_MAP__* */
static void print_cpu_map(struct cursor *at, FILE *to)
{
	AUTO_BUF struct buf text = {0};
	struct cpuset cpus = {0};
	unsigned kind = cursor_u16(at);

	if (kind == 0) {
		unsigned nr = cursor_u16(at);
		for (unsigned i = 0; i < nr && cursor_left(at) >= 2; i++) {
			unsigned cpu = cursor_u16(at);
			if (cpu == UINT16_MAX) /* any */
				buf_put_text(&text, "-1");
			else
				cpuset_add(&cpus, cpu);
		}
	} else if (kind == 1) {
		take_mask(at, &cpus);
	} else if (kind == 2) {
		cursor_u16(at); /* "any CPU" and padding */
		unsigned first = cursor_u16(at), last = cursor_u16(at);
		for (unsigned cpu = first; cpu <= last && !at->bad; cpu++)
			cpuset_add(&cpus, cpu);
	}
	cpuset_format(&cpus, &text);
	cpuset_fini(&cpus);
	fprintf(to, ": %s\n: unhandled!\n", buf_text(&text));
}

static void print_update(struct cursor *at, FILE *to)
{
	uint64_t kind = cursor_u64(at), id = cursor_u64(at);
	struct text text = take_text(at);
	double scale;

	fprintf(to, "\n... id:    %" PRIu64 "\n", id);
	switch (kind) {
	case EVENT_UPDATE_SCALE:
		cursor_copy(at, &scale, sizeof(scale));
		fprintf(to, "... scale: %f\n", scale);
		break;
	case EVENT_UPDATE_UNIT:
		fprintf(to, "... unit:  %.*s\n", text.len, text.ptr);
		break;
	case EVENT_UPDATE_NAME:
		fprintf(to, "... name:  %.*s\n", text.len, text.ptr);
		break;
	case EVENT_UPDATE_CPUS:
		fputs("... cpus\n", to);
		break;
	default:
		fputs("... unknown type\n", to);
		break;
	}
}

static void print_user(struct cursor *at, const struct perf_event_header *header, FILE *to)
{
	switch (header->type) {
	case RECORD_ID_INDEX:
		print_id_index(at, to);
		break;
	case RECORD_THREAD_MAP:
		print_thread_map(at, to);
		break;
	case RECORD_CPU_MAP:
		print_cpu_map(at, to);
		break;
	case RECORD_EVENT_UPDATE:
		print_update(at, to);
		break;
	case RECORD_HEADER_ATTR:
	case RECORD_HEADER_FEATURE:
	case RECORD_TRACING_DATA:
		break; /* the next record's line ends this one */
	case RECORD_FINISHED_ROUND:
		fputc('\n', to);
		break;
	default:
		fputs(": unhandled!\n", to);
		break;
	}
}

static void print_small(struct cursor *at, const struct session_record *record, FILE *to)
{
	uint64_t first = cursor_u64(at);

	switch (record->view.header->type) {
	case PERF_RECORD_LOST:
		fprintf(to, ": id:%" PRIu64 ": lost:%" PRIu64 "\n", first, cursor_u64(at));
		break;
	case PERF_RECORD_LOST_SAMPLES:
		fprintf(to, ": id:%" PRIu64 ": lost samples :%" PRIu64 "\n", record->sample.id, first);
		break;
	case PERF_RECORD_CGROUP: {
		struct text path = take_text(at);
		fprintf(to, " cgroup: %" PRIu64 " %.*s\n", first, path.len, path.ptr);
		break;
	}
	case PERF_RECORD_BPF_EVENT:
		fprintf(to, " type %u, flags %u, id %u\n", (unsigned)(first & 0xffff), (unsigned)(first >> 16 & 0xffff),
			(unsigned)(first >> 32));
		break;
	default:
		fputs(": unhandled!\n", to);
		break;
	}
}

void dump_record_text(const struct session_record *record, FILE *to)
{
	const struct perf_event_header *header = record->view.header;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		dump_sample_text(record, to);
		break;
	case PERF_RECORD_MMAP:
		print_mmap(&at, header->misc, to);
		break;
	case PERF_RECORD_MMAP2:
		print_mmap2(&at, header->misc, to);
		break;
	case PERF_RECORD_COMM:
		print_comm(&at, header->misc, to);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		print_fork(&at, to);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		print_switch(&at, header, to);
		break;
	case PERF_RECORD_NAMESPACES:
		print_namespaces(&at, to);
		break;
	case PERF_RECORD_KSYMBOL:
		print_ksymbol(&at, to);
		break;
	default:
		if (header->type >= RECORD_USER_FIRST)
			print_user(&at, header, to);
		else
			print_small(&at, record, to);
		break;
	}
	if (at.bad)
		fputs(" (cut short)\n", to);
}
