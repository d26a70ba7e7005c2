/* SPDX-License-Identifier: MIT */
#include "cmd/text/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/span.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/records.h"
#include "event/names/registers.h"
#include "perfdata/object_id.h"
#include "read/session.h"

static void print_chain(const struct sample *sample, FILE *to)
{
	fprintf(to, "... FP chain: nr:%" PRIu64 "\n", sample->nr_ips);
	for (uint64_t i = 0; i < sample->nr_ips; i++)
		fprintf(to, "..... %2" PRIu64 ": %016" PRIx64 "\n", i, sample->ips[i]);
}

static void print_branches(const struct sample *sample, FILE *to)
{
	fprintf(to, "... branch stack: nr:%" PRIu64 "\n", sample->branches.nr);
	for (uint64_t i = 0; i < sample->branches.nr; i++) {
		const struct perf_branch_entry *entry = &sample->branches.entries[i];
		fprintf(to, "..... %2" PRIu64 ": %016" PRIx64 " -> %016" PRIx64 " %hu cycles %s%s%s%s %x\n", i,
			(uint64_t)entry->from, (uint64_t)entry->to, (unsigned short)entry->cycles,
			entry->mispred ? "M" : " ", entry->predicted ? "P" : " ", entry->abort ? "A" : " ",
			entry->in_tx ? "T" : " ", (unsigned)entry->type);
	}
}

static const char *abi_name(uint64_t abi)
{
	return abi == PERF_SAMPLE_REGS_ABI_64 ? "64-bit" : abi == PERF_SAMPLE_REGS_ABI_32 ? "32-bit" : "unknown";
}

static void print_regs(const char *whose, const char *arch, const struct sample_regs *regs, FILE *to)
{
	unsigned nr = 0;

	if (!regs->regs)
		return;
	fprintf(to, "... %s regs: mask 0x%" PRIx64 " ABI %s\n", whose, regs->mask, abi_name(regs->abi));
	for (unsigned i = 0; i < 64; i++) {
		if (!(regs->mask >> i & 1))
			continue;
		fprintf(to, ".... %-5s 0x%016" PRIx64 "\n", register_name(arch, i), regs->regs[nr++]);
	}
}

static void print_read(const struct session_record *record, FILE *to)
{
	const struct perf_event_attr *attr = &record->event->attr;
	struct sample_read read;
	struct sample_value value;

	fprintf(to, "... sample_read:\n");
	if (sample_read_open(attr, record->sample.read, &read))
		return;
	bool group = attr->read_format & PERF_FORMAT_GROUP, first = true;
	uint64_t nr = read.nr;
	while (sample_read_next(&read, &value)) {
		if (first) {
			if (attr->read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
				fprintf(to, "...... time enabled %016" PRIx64 "\n", read.enabled_ns);
			if (attr->read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
				fprintf(to, "...... time running %016" PRIx64 "\n", read.running_ns);
			if (group)
				fprintf(to, ".... group nr %" PRIu64 "\n", nr);
		}
		first = false;
		fprintf(to, "..... id %016" PRIx64 ", value %016" PRIx64, value.id, value.value);
		if (attr->read_format & 1 << 4) /* PERF_FORMAT_LOST, Linux 6.0 */
			fprintf(to, ", lost %" PRIu64, value.lost);
		fputc('\n', to);
	}
}

static void print_weight(const struct sample *sample, uint64_t type, FILE *to)
{
	if (type & PERF_SAMPLE_WEIGHT_STRUCT)
		fprintf(to, "... weight: %u,0x%x,0x%x\n", (uint32_t)sample->weight, (uint16_t)(sample->weight >> 32),
			(uint16_t)(sample->weight >> 48));
	else
		fprintf(to, "... weight: %" PRIu64 "\n", sample->weight);
}

/* One-word fields behind the arrays. */
static void print_words(const struct sample *sample, uint64_t type, FILE *to)
{
	if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		print_weight(sample, type, to);
	if (type & PERF_SAMPLE_DATA_SRC)
		fprintf(to, " . data_src: 0x%" PRIx64 "\n", sample->data_src);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		fprintf(to, " .. phys_addr: 0x%" PRIx64 "\n", sample->phys_addr);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		fprintf(to, " .. data page size: %" PRIu64 "\n", sample->data_page_size);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		fprintf(to, " .. code page size: %" PRIu64 "\n", sample->code_page_size);
	if (type & PERF_SAMPLE_TRANSACTION)
		fprintf(to, "... transaction: %" PRIx64 "\n", sample->transaction);
}

static void dump_sample_text(const struct session_record *record, const char *arch, FILE *to)
{
	const struct sample *sample = &record->sample;
	uint64_t type = sample->present;

	fprintf(to, "(IP, 0x%x): %d/%d: %#" PRIx64 " period: %" PRIu64 " addr: %#" PRIx64 "\n",
		record->view.header->misc, (int)sample->pid, (int)sample->tid, sample->ip, sample->period,
		sample->addr);
	if (type & PERF_SAMPLE_CALLCHAIN)
		print_chain(sample, to);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		print_branches(sample, to);
	print_regs("user", arch, &sample->user_regs, to);
	print_regs("intr", arch, &sample->intr_regs, to);
	if (sample->user_stack.ptr) {
		/* As perf: the offset of the size in front of the bytes. */
		const char *size = (const char *)sample->user_stack.ptr - sizeof(uint64_t);
		fprintf(to, "... ustack: size %zu, offset 0x%zx\n", sample->user_stack.len,
			(size_t)(size - (const char *)record->view.header));
	}
	print_words(sample, type, to);
	if (type & PERF_SAMPLE_READ)
		print_read(record, to);
}

/* A text that fills the rest of a record, for "%.*s"; never read past its end, NUL or not. */
static struct escaped take_text(struct cursor *at)
{
	const char *text = (const char *)at->at;

	return escaped_bytes(text, strnlen(text, cursor_left(at)));
}

static void print_mmap(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	uint64_t addr = cursor_u64(at), len = cursor_u64(at), pgoff = cursor_u64(at);
	AUTO_ESCAPED name = take_text(at);

	fprintf(to, " %d/%d: [%#" PRIx64 "(%#" PRIx64 ") @ %#" PRIx64 "]: %c %.*s\n", pid, tid, addr, len, pgoff,
		misc & PERF_RECORD_MISC_MMAP_DATA ? 'r' : 'x', name.len, name.text);
}

/* Device and inode, or the build-id in the same 24 bytes. */
static void print_file(struct cursor *at, uint16_t misc, FILE *to)
{
	struct object_id id;

	object_id_take(at, misc, &id);
	if (id.build_id.len) {
		fputs(" <", to);
		for (unsigned i = 0; i < id.build_id.len; i++)
			fprintf(to, "%02x", id.build_id.bytes[i]);
		fputs(">]: ", to);
		return;
	}
	fprintf(to, " %02x:%02x %" PRIu64 " %" PRIu64 "]: ", id.file.major, id.file.minor, id.file.inode,
		id.file.generation);
}

static void print_mmap2(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	uint64_t addr = cursor_u64(at), len = cursor_u64(at), pgoff = cursor_u64(at);

	fprintf(to, " %d/%d: [%#" PRIx64 "(%#" PRIx64 ") @ %#" PRIx64, pid, tid, addr, len, pgoff);
	print_file(at, misc, to);
	/* PROT_* and MAP_SHARED of mmap(2) */
	uint32_t prot = cursor_u32(at), flags = cursor_u32(at);
	AUTO_ESCAPED name = take_text(at);
	fprintf(to, "%c%c%c%c %.*s\n", prot & 1 ? 'r' : '-', prot & 2 ? 'w' : '-', prot & 4 ? 'x' : '-',
		flags & 1 ? 's' : 'p', name.len, name.text);
}

static void print_comm(struct cursor *at, uint16_t misc, FILE *to)
{
	int pid = (int)cursor_u32(at), tid = (int)cursor_u32(at);
	AUTO_ESCAPED comm = take_text(at);

	fprintf(to, "%s: %.*s:%d/%d\n", misc & PERF_RECORD_MISC_COMM_EXEC ? " exec" : "", comm.len, comm.text, pid,
		tid);
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
	const char *what = !out                                                 ? "IN         "
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
		fprintf(to, "%" PRIu64 "/%s: %" PRIu64 "/%#" PRIx64 "%s", i, i < 7 ? names[i] : "unknown", device,
			inode,
			i + 1 == nr  ? "]\n"
			: i % 4 == 3 ? ", \n\t\t "
				     : ", ");
	}
}

static void print_ksymbol(struct cursor *at, FILE *to)
{
	uint64_t addr = cursor_u64(at);
	uint32_t len = cursor_u32(at);
	unsigned type = cursor_u16(at), flags = cursor_u16(at);
	AUTO_ESCAPED name = take_text(at);

	fprintf(to, " addr %" PRIx64 " len %u type %u flags 0x%x name %.*s\n", addr, len, type, flags, name.len,
		name.text);
}

static void print_id_index(struct cursor *at, FILE *to)
{
	uint64_t nr = cursor_u64(at);

	fprintf(to, " nr: %" PRIu64 "\n", nr);
	for (uint64_t i = 0; i < nr && cursor_left(at) >= 32; i++) {
		uint64_t id = cursor_u64(at), index = cursor_u64(at);
		int64_t cpu = (int64_t)cursor_u64(at), tid = (int64_t)cursor_u64(at);
		fprintf(to, " ... id: %" PRIu64 "  idx: %" PRIu64 "  cpu: %" PRId64 "  tid: %" PRId64 "\n", id, index,
			cpu, tid);
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

	if (bytes != 4 && bytes != 8) {
		at->bad = true;
		return;
	}
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
	bool any = false;

	if (kind == 0) {
		unsigned nr = cursor_u16(at);
		for (unsigned i = 0; i < nr && cursor_left(at) >= 2; i++) {
			unsigned cpu = cursor_u16(at);
			if (cpu == UINT16_MAX)
				any = true;
			else
				cpuset_add(&cpus, cpu);
		}
	} else if (kind == 1) {
		take_mask(at, &cpus);
	} else if (kind == 2) {
		any = cursor_u8(at);
		cursor_u8(at); /* padding */
		unsigned first = cursor_u16(at), last = cursor_u16(at);
		for (unsigned cpu = first; cpu <= last && !at->bad; cpu++)
			cpuset_add(&cpus, cpu);
	}
	if (any)
		buf_put_text(&text, cpuset_count(&cpus) ? "-1," : "-1");
	cpuset_format(&cpus, &text);
	cpuset_fini(&cpus);
	fprintf(to, ": %s\n: unhandled!\n", buf_text(&text));
}

static void print_update(struct cursor *at, FILE *to)
{
	uint64_t kind = cursor_u64(at), id = cursor_u64(at);
	AUTO_ESCAPED text = take_text(at);
	double scale;

	fprintf(to, "\n... id:    %" PRIu64 "\n", id);
	switch (kind) {
	case EVENT_UPDATE_SCALE:
		cursor_copy(at, &scale, sizeof(scale));
		fprintf(to, "... scale: %f\n", scale);
		break;
	case EVENT_UPDATE_UNIT: fprintf(to, "... unit:  %.*s\n", text.len, text.text); break;
	case EVENT_UPDATE_NAME: fprintf(to, "... name:  %.*s\n", text.len, text.text); break;
	case EVENT_UPDATE_CPUS: fputs("... cpus\n", to); break;
	default: fputs("... unknown type\n", to); break;
	}
}

/* Fields from time_cycles on are there since Linux 5.11. Source: struct perf_record_time_conv (facts). */
static void print_time_conv(struct cursor *at, FILE *to)
{
	uint64_t shift = cursor_u64(at), mult = cursor_u64(at), zero = cursor_u64(at);

	fprintf(to,
		"\n... Time Shift      %" PRIu64 "\n... Time Muliplier  %" PRIu64 "\n... Time Zero       %" PRIu64 "\n",
		shift, mult, zero); /* perf spells it so */
	if (!at->bad && cursor_left(at)) {
		uint64_t cycles = cursor_u64(at), mask = cursor_u64(at);
		unsigned cap_zero = cursor_u8(at), cap_short = cursor_u8(at);
		fprintf(to, "... Time Cycles     %" PRIu64 "\n... Time Mask       %#" PRIx64 "\n", cycles, mask);
		fprintf(to, "... Cap Time Zero   %u\n... Cap Time Short  %u\n", cap_zero, cap_short);
	}
	fputs(": unhandled!\n", to);
}

/* A text in so many bytes, and zeroes behind it. */
static struct escaped take_field(struct cursor *at, size_t bytes)
{
	const char *text = cursor_take(at, bytes);

	return escaped_bytes(text ? text : "", text ? strnlen(text, bytes) : 0);
}

/* What a BPF program says of itself, perf 6.17: char name[512], u64 nr, {char key[64], value[256]}[nr] (facts). */
static void print_bpf_metadata(struct cursor *at, FILE *to)
{
	enum { NAME_BYTES = 512, KEY_BYTES = 64, VALUE_BYTES = 256 };
	AUTO_ESCAPED name = take_field(at, NAME_BYTES);
	uint64_t nr = cursor_u64(at);

	fprintf(to, " prog %.*s\n", name.len, name.text);
	for (uint64_t i = 0; i < nr && cursor_left(at) >= KEY_BYTES + VALUE_BYTES; i++) {
		AUTO_ESCAPED key = take_field(at, KEY_BYTES), value = take_field(at, VALUE_BYTES);
		fprintf(to, "  entry %" PRIu64 ": %20.*s = %.*s\n", i, key.len, key.text, value.len, value.text);
	}
}

/* The user part of call chains of samples, Linux 6.19: see read/deferred_chains.h. */
static void print_deferred_chain(struct cursor *at, const struct session_record *record, FILE *to)
{
	uint64_t cookie = cursor_u64(at), nr = cursor_u64(at);

	fprintf(to, "(IP, 0x%x): %d/%d: %#" PRIx64 "\n... FP chain: nr:%" PRIu64 "\n", record->view.header->misc,
		(int)record->sample.pid, (int)record->sample.tid, cookie, nr);
	for (uint64_t i = 0; i < nr && cursor_left(at) >= sizeof(uint64_t); i++)
		fprintf(to, "..... %2" PRIu64 ": %016" PRIx64 "\n", i, cursor_u64(at));
}

static void print_user(struct cursor *at, const struct perf_event_header *header, FILE *to)
{
	switch (header->type) {
	case RECORD_TIME_CONV: print_time_conv(at, to); break;
	case RECORD_BPF_METADATA: print_bpf_metadata(at, to); break;
	case RECORD_ID_INDEX: print_id_index(at, to); break;
	case RECORD_THREAD_MAP: print_thread_map(at, to); break;
	case RECORD_CPU_MAP: print_cpu_map(at, to); break;
	case RECORD_EVENT_UPDATE: print_update(at, to); break;
	case RECORD_HEADER_ATTR:
	case RECORD_HEADER_FEATURE:
	case RECORD_EVENT_TYPE:
	case RECORD_TRACING_DATA: break; /* the next record's line ends this one */
	case RECORD_FINISHED_ROUND: fputc('\n', to); break;
	default: fputs(": unhandled!\n", to); break;
	}
}

static void print_small(struct cursor *at, const struct session_record *record, FILE *to)
{
	uint64_t first = cursor_u64(at);

	switch (record->view.header->type) {
	case PERF_RECORD_LOST: fprintf(to, ": id:%" PRIu64 ": lost:%" PRIu64 "\n", first, cursor_u64(at)); break;
	case PERF_RECORD_LOST_SAMPLES:
		fprintf(to, ": id:%" PRIu64 ": lost samples :%" PRIu64 "\n", record->sample.id, first);
		break;
	case PERF_RECORD_CGROUP: {
		AUTO_ESCAPED path = take_text(at);
		fprintf(to, " cgroup: %" PRIu64 " %.*s\n", first, path.len, path.text);
		break;
	}
	case PERF_RECORD_BPF_EVENT:
		fprintf(to, " type %u, flags %u, id %u\n", (unsigned)(first & 0xffff), (unsigned)(first >> 16 & 0xffff),
			(unsigned)(first >> 32));
		break;
	default: fputs(": unhandled!\n", to); break;
	}
}

void dump_record_text(const struct session_record *record, const char *arch, FILE *to)
{
	const struct perf_event_header *header = record->view.header;
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});

	switch (header->type) {
	case PERF_RECORD_SAMPLE: dump_sample_text(record, arch, to); break;
	case PERF_RECORD_MMAP: print_mmap(&at, header->misc, to); break;
	case PERF_RECORD_MMAP2: print_mmap2(&at, header->misc, to); break;
	case PERF_RECORD_COMM: print_comm(&at, header->misc, to); break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: print_fork(&at, to); break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE: print_switch(&at, header, to); break;
	case PERF_RECORD_NAMESPACES: print_namespaces(&at, to); break;
	case PERF_RECORD_KSYMBOL: print_ksymbol(&at, to); break;
	case RECORD_CALLCHAIN_DEFERRED: print_deferred_chain(&at, record, to); break;
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

enum { BYTES_PER_LINE = 16 };

static void machine_cleanup(struct machine **machine)
{
	machine_free(*machine);
}

/* ".  0010:  a2 03 00 …  ................" */
static void print_line(FILE *to, const uint8_t *bytes, size_t at, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char line[16 + BYTES_PER_LINE * 4], *end = line + snprintf(line, 16, ".  %04zx: ", at);

	for (size_t i = 0; i < BYTES_PER_LINE; i++) {
		bool there = i < len;
		*end++ = ' ';
		*end++ = there ? digits[bytes[at + i] >> 4] : ' ';
		*end++ = there ? digits[bytes[at + i] & 15] : ' ';
	}
	*end++ = ' ';
	*end++ = ' ';
	for (size_t i = 0; i < BYTES_PER_LINE; i++)
		*end++ = i >= len ? ' ' : bytes[at + i] >= ' ' && bytes[at + i] <= '~' ? (char)bytes[at + i] : '.';
	*end++ = '\n';
	fwrite(line, 1, (size_t)(end - line), to);
}

static void print_bytes(FILE *to, const struct session_info *info, uint64_t offset, const struct record_view *view)
{
	const struct perf_event_header *record = view->header;
	const uint8_t *bytes = (const uint8_t *)record;
	AUTO_ESCAPED path = escaped_text(info->pipe ? "pipe" : info->path);

	fprintf(to, "\n%#" PRIx64 "@%s%s%s [%#x]: event: %u\n.\n. ... raw event: size %u bytes\n", offset, path.text,
		view->file ? "/" : "", view->file ? view->file : "", record->size, record->type, record->size);
	for (size_t at = 0; at < record->size; at += BYTES_PER_LINE) {
		size_t left = record->size - at;
		print_line(to, bytes, at, left < BYTES_PER_LINE ? left : BYTES_PER_LINE);
	}
	fputc('\n', to);
}

/* CPU and time stand in front when any event samples them. */
static void print_front(FILE *to, const struct session *session, const struct session_record *record)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);
	uint64_t types = 0;

	nr -= nr && record->view.header->type == RECORD_HEADER_ATTR; /* not yet the one that it describes */
	for (size_t i = 0; i < nr; i++)
		types |= events[i].attr.sample_type;
	if (record->view.header->type != PERF_RECORD_SAMPLE && (!nr || !events[0].attr.sample_id_all)) {
		fputs("-1 -1 ", to);
		return;
	}
	bool user = record->view.header->type >= RECORD_USER_FIRST;
	if (types & PERF_SAMPLE_CPU)
		fprintf(to, "%u ", user ? 0 : record->sample.cpu);
	if (types & PERF_SAMPLE_TIME)
		fprintf(to, "%" PRIu64 " ", record->sample.time);
}

/* Whose sample it is, and where it was taken. */
static int print_place(FILE *to, struct machine *machine, const struct session_record *record)
{
	const struct sample *sample = &record->sample;
	struct task *task = machine_task(machine, sample->pid, sample->tid);
	struct location location;

	if (!task)
		return -ENOMEM;
	lookup_set_time(machine_lookup(machine), sample);
	machine_resolve(machine, task, sample->cpumode, sample->ip, &location);
	AUTO_ESCAPED comm = escaped_text(task->comm->text);
	AUTO_ESCAPED dso = escaped_text(location.dso ? dso_long_name(location.dso) : "<not found>");
	fprintf(to, " ... thread: %s:%d\n", comm.text, (int)sample->tid);
	fprintf(to, " ...... dso: %s\n", dso.text);
	return 0;
}

static int dump_record(struct session *session, struct machine *machine, const struct session_record *record, FILE *to)
{
	const struct session_info *info = session_info(session);
	const struct perf_event_header *header = record->view.header;
	/* perf counts the bytes of a pipe from behind its header. */
	uint64_t offset = record->view.offset - (info->pipe ? LAYOUT_PIPE_HEADER_BYTES : 0);

	print_bytes(to, info, offset, &record->view);
	print_front(to, session, record);
	fprintf(to, "%#" PRIx64 " [%#x]: PERF_RECORD_%s", offset, header->size, record_type_name(header->type));
	dump_record_text(record, session_arch(session), to);
	if (header->type == PERF_RECORD_SAMPLE)
		return print_place(to, machine, record);
	return machine_process(machine, record);
}

int dump_session(struct session *session, const struct symbol_options *options, FILE *to, struct diag *reterr)
{
	__attribute__((cleanup(machine_cleanup))) struct machine *machine = NULL;
	struct session_record record;
	struct progress progress;
	int err = machine_new(options, session, &machine), got = 1;

	input_progress_start(&progress, session, "reading");
	if (pager_terminal()) /* where the lines go there is no place for it */
		progress.what = NULL;
	while (!err && !ferror(to) && (got = session_next(session, &record, reterr)) > 0) {
		progress_step(&progress, 1, record.view.offset);
		if (!record.outside_times)
			err = dump_record(session, machine, &record, to);
	}
	progress_end(&progress);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : got < 0 ? got : 0;
}
