/* SPDX-License-Identifier: MIT */
#include "cmd/merge_hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/span.h"
#include "perfdata/feature_machine.h"
#include "perfdata/layout.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"
#include "read/session.h"
#include "tasks/off_cpu.h"
#include "tasks/task_event.h"

enum {
	MOST_HOSTS = 500 /* pids are int */,
	MOST_NAME = 4096 /* bytes: it is put behind names of objects, which together must fit into a record */,
	IDS_BIT = 48 /* ids count from 1 on: perf_event_id in kernel/events/core.c */,
	KERNEL_BIT = 36 /* 64 GiB: code of a kernel is in less, below it is none of another one */,
	OFF_CPU_WAKER = 12 /* offset in the payload, see tasks/off_cpu.h */
};

static const char *text_of(const struct session *session, enum feature_bit bit)
{
	struct span payload;
	const char *text;

	return session_feature(session, bit, &payload) && !feature_decode_string(payload, &text) ? text : "";
}

static bool same_machine(const struct session *a, const struct session *b)
{
	return strcmp(text_of(a, FEATURE_HOSTNAME), text_of(b, FEATURE_HOSTNAME)) == 0;
}

static uint32_t nr_cpus(const struct session *session)
{
	struct feature_nrcpus nr;
	struct span payload;

	return session_feature(session, FEATURE_NRCPUS, &payload) && !feature_decode_nrcpus(payload, &nr) ? nr.available
													  : 0;
}

/* What cannot be moved. NULL: nothing. */
static const char *obstacle(const struct session *session)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++) {
		const struct perf_event_attr *attr = &events[i].attr;
		if (attr->type == PERF_TYPE_TRACEPOINT)
			return "tracepoints, whose formats and numbers each machine has for itself";
		if (attr->sample_type & (PERF_SAMPLE_READ | PERF_SAMPLE_AUX))
			return "samples with counts of groups or hardware traces";
		if (!(attr->sample_type & PERF_SAMPLE_TID) || !(attr->sample_type & PERF_SAMPLE_TIME))
			return "samples without pid or time";
	}
	return nr_cpus(session) ? NULL : "no number of CPUs in its header";
}

/* What is to be added to the clock of the records for the time of day. */
static int clock_offset(const struct session *session, int64_t *ret, struct diag *reterr)
{
	struct feature_clock clock;
	struct span payload;

	if (!session_feature(session, FEATURE_CLOCK_DATA, &payload) || feature_decode_clock(payload, &clock))
		return diag_set(reterr, -EINVAL,
				"%s does not have the time of day, by which recordings of several machines are joined: "
				"record with --clockid mono (-k)",
				session_info(session)->path);
	*ret = (int64_t)(clock.wall_ns - clock.clock_ns);
	return 0;
}

static uint64_t file_key(const struct file_id *file)
{
	return hash_mix(hash_mix((uint64_t)file->major << 32 | file->minor, file->inode), file->generation);
}

/* len 0: there are several of that key. */
static int learn(struct merge_hosts *hosts, struct host_shift *shift, uint64_t key, const struct elf_id *id)
{
	struct elf_id *known = hash_table_find_item(&shift->build_ids, key);

	if (known && !elf_id_equal(known, id))
		known->len = 0;
	if (known)
		return 0;
	known = pool_take(&hosts->pool, sizeof(*known));
	if (!known || hash_table_add(&shift->build_ids, key, known))
		return -ENOMEM;
	*known = *id;
	return 0;
}

static int learn_build_ids(struct merge_hosts *hosts, const struct session *session, struct host_shift *shift)
{
	struct file_build_id file;
	struct build_id listed;
	struct span payload;
	int err = 0;

	if (session_feature(session, FEATURE_MAPPED_FILES, &payload))
		for (struct cursor at = cursor_over(payload); !err && file_build_id_next(&at, &file);)
			err = learn(hosts, shift, file_key(&file.file), &file.build_id);
	if (!session_feature(session, FEATURE_BUILD_ID, &payload))
		return err;
	for (struct cursor at = cursor_over(payload); !err && build_id_decode(&at, &listed) == 1;) {
		struct elf_id id = {.len = listed.id_bytes};
		memcpy(id.bytes, listed.id, sizeof(id.bytes));
		err = learn(hosts, shift, hash_text(listed.path), &id);
	}
	return err;
}

/* "web1,web2". */
static int add_name(struct merge_hosts *hosts, const char *name, struct host_shift *shift)
{
	char *copy = pool_text(&hosts->pool, name, strlen(name)), *names = NULL;

	if (!copy)
		return -ENOMEM;
	shift->name = copy;
	if (shift->number < hosts->nr_hosts)
		return 0;
	hosts->nr_hosts++;
	if (asprintf(&names, "%s%s%s", hosts->names ? hosts->names : "", hosts->names ? "," : "", copy) < 0)
		return -ENOMEM;
	free(hosts->names);
	hosts->names = names;
	return 0;
}

static void tell(const struct host_shift *shift, const char *first)
{
	log_note("%s: times moved by %+.9f s, to the clock of %s by the time of day of both; pids by %" PRIu32
		 ", CPUs by %" PRIu32,
		 shift->name, (double)shift->time_ns / 1e9, first, shift->pids, shift->cpus);
}

/* Machines have numbers in the order in which they come; CPUs are behind those of the machines before. */
static void find_number(struct session *const sessions[], size_t at, const struct merge_hosts *hosts)
{
	struct host_shift *shift = &hosts->shifts[at];

	shift->number = hosts->nr_hosts;
	for (size_t i = 0; i < at; i++) {
		const struct host_shift *other = &hosts->shifts[i];
		if (same_machine(sessions[i], sessions[at])) {
			shift->number = other->number;
			shift->cpus = other->cpus;
			return;
		}
		uint32_t behind = other->cpus + nr_cpus(sessions[i]);
		shift->cpus = behind > shift->cpus ? behind : shift->cpus;
	}
}

static int find_shift(struct session *const sessions[], size_t at, struct merge_hosts *hosts, struct diag *reterr)
{
	struct host_shift *shift = &hosts->shifts[at];
	const struct session *session = sessions[at];
	const char *why = obstacle(session), *name = text_of(session, FEATURE_HOSTNAME);
	int64_t first_ns, here_ns;

	if (why)
		return diag_set(reterr, -EINVAL, "%s cannot be merged with recordings of other machines: it has %s",
				session_info(session)->path, why);
	if (!*name)
		return diag_set(reterr, -EINVAL, "%s does not name its machine", session_info(session)->path);
	if (strchr(name, ','))
		return diag_set(reterr, -EINVAL,
				"%s is of several machines already: name the recordings of each of them",
				session_info(session)->path);
	if (strlen(name) > MOST_NAME)
		return diag_set(reterr, -EINVAL, "%s: the name of its machine has more than %d bytes",
				session_info(session)->path, MOST_NAME);
	int err = clock_offset(sessions[0], &first_ns, reterr);
	if (!err)
		err = clock_offset(session, &here_ns, reterr);
	if (err)
		return err;
	find_number(sessions, at, hosts);
	if (shift->number == MOST_HOSTS)
		return diag_set(reterr, -EINVAL, "more than %d machines: at most so many can be in one file",
				MOST_HOSTS);
	if (shift->number) {
		shift->time_ns = here_ns - first_ns;
		shift->pids = shift->number * LAYOUT_PIDS_OF_HOST;
		shift->ids = (uint64_t)shift->number << IDS_BIT;
		shift->kernel_bytes = (uint64_t)shift->number << KERNEL_BIT;
	}
	bool is_new = shift->number >= hosts->nr_hosts;
	if (add_name(hosts, name, shift) || learn_build_ids(hosts, session, shift))
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (is_new && shift->number)
		tell(shift, hosts->shifts[0].name);
	return 0;
}

int merge_hosts_find(struct session *const sessions[], size_t nr, struct merge_hosts *ret, struct diag *reterr)
{
	size_t nr_of_first = 0;
	int err = 0;

	while (nr_of_first < nr && same_machine(sessions[0], sessions[nr_of_first]))
		nr_of_first++;
	if (nr_of_first == nr)
		return 0;
	ret->shifts = calloc(nr, sizeof(*ret->shifts));
	if (!ret->shifts)
		return diag_set(reterr, -ENOMEM, "out of memory");
	ret->nr = nr;
	for (size_t i = 0; i < nr && !err; i++)
		err = find_shift(sessions, i, ret, reterr);
	return err;
}

void merge_hosts_fini(struct merge_hosts *hosts)
{
	for (size_t i = 0; i < hosts->nr; i++)
		hash_table_fini(&hosts->shifts[i].build_ids);
	free(hosts->shifts);
	free(hosts->names);
	pool_fini(&hosts->pool);
	*hosts = (struct merge_hosts){0};
}

void merge_hosts_put_idle(const struct merge_hosts *hosts, size_t trailer_bytes, struct buf *out)
{
	static const char name[] = "swapper";

	for (uint32_t number = 1; number < hosts->nr_hosts; number++) {
		const struct record_comm comm = {
			.header = {.type = PERF_RECORD_COMM},
			.pid = number * LAYOUT_PIDS_OF_HOST,
			.tid = number * LAYOUT_PIDS_OF_HOST,
		};
		record_put(out, &comm, sizeof(comm), (struct span){name, strlen(name)}, trailer_bytes);
	}
}

bool host_shift_is_before_start(const struct host_shift *shift, uint64_t time_ns)
{
	return shift->time_ns < 0 && time_ns <= -(uint64_t)shift->time_ns; /* 0 is no time */
}

static void move_pid(const struct host_shift *shift, void *at)
{
	uint32_t pid;

	memcpy(&pid, at, sizeof(pid));
	pid += pid == UINT32_MAX ? 0 : shift->pids;
	memcpy(at, &pid, sizeof(pid));
}

static void move_word(void *at, uint64_t by)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	value += value ? by : 0;
	memcpy(at, &value, sizeof(value));
}

/* Those of the kernel have the highest bit, markers in call chains are above all of them. */
static void move_address(const struct host_shift *shift, void *at)
{
	uint64_t address;

	memcpy(&address, at, sizeof(address));
	if (address >> 63 && address < (uint64_t)PERF_CONTEXT_MAX)
		address -= shift->kernel_bytes;
	memcpy(at, &address, sizeof(address));
}

/* The fields of one word that samples and trailers have in common. */
static void move_word_of(const struct host_shift *shift, uint64_t bit, uint8_t *at)
{
	uint32_t cpu;

	switch (bit) {
	case PERF_SAMPLE_IDENTIFIER:
	case PERF_SAMPLE_ID:
	case PERF_SAMPLE_STREAM_ID: move_word(at, shift->ids); break;
	case PERF_SAMPLE_TIME: move_word(at, (uint64_t)shift->time_ns); break;
	case PERF_SAMPLE_IP:
	case PERF_SAMPLE_ADDR: move_address(shift, at); break;
	case PERF_SAMPLE_TID:
		move_pid(shift, at);
		move_pid(shift, at + sizeof(uint32_t));
		break;
	case PERF_SAMPLE_CPU:
		memcpy(&cpu, at, sizeof(cpu));
		cpu += cpu == UINT32_MAX ? 0 : shift->cpus;
		memcpy(at, &cpu, sizeof(cpu));
		break;
	default: break;
	}
}

static void move_words(const struct host_shift *shift, uint64_t present, const uint64_t bits[], uint8_t *at)
{
	for (; *bits; bits++) {
		if (!(present & *bits))
			continue;
		move_word_of(shift, *bits, at);
		at += sizeof(uint64_t);
	}
}

/* Who ended the wait of a time off the CPU, and where. */
static void move_waker(const struct host_shift *shift, const struct session_record *record, struct span raw)
{
	uint8_t *payload = (uint8_t *)(uintptr_t)raw.ptr;
	struct off_cpu_wait wait;

	if (!off_cpu_is_event(record->event) || off_cpu_decode(&record->sample, &wait) || wait.flags & OFF_CPU_SUM ||
	    !wait.waker_tid)
		return;
	move_pid(shift, payload + OFF_CPU_WAKER);
	move_pid(shift, payload + OFF_CPU_WAKER + sizeof(uint32_t));
	for (size_t at = OFF_CPU_WAKER + sizeof(uint64_t); at + sizeof(uint64_t) <= raw.len; at += sizeof(uint64_t))
		move_address(shift, payload + at);
}

static int move_sample(const struct host_shift *shift, const struct session_record *record,
		       struct perf_event_header *copy)
{
	static const uint64_t words[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
					 PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
					 PERF_SAMPLE_STREAM_ID,  PERF_SAMPLE_CPU,  0};
	static const uint64_t behind_cgroup[] = {PERF_SAMPLE_DATA_PAGE_SIZE, PERF_SAMPLE_CODE_PAGE_SIZE};
	struct sample sample;

	if (!record->event || sample_decode(&record->event->attr, copy, &sample))
		return -EBADMSG;
	move_words(shift, sample.present, words, (uint8_t *)(copy + 1));
	for (uint64_t i = 0; i < sample.nr_ips; i++)
		move_address(shift, (void *)(uintptr_t)&sample.ips[i]);
	for (uint64_t i = 0; i < sample.branches.nr; i++) {
		move_address(shift, (void *)(uintptr_t)&sample.branches.entries[i].from);
		move_address(shift, (void *)(uintptr_t)&sample.branches.entries[i].to);
	}
	if (sample.raw.len)
		move_waker(shift, record, sample.raw);
	if (sample.present & PERF_SAMPLE_CGROUP) {
		uint8_t *at = (uint8_t *)copy + copy->size - sizeof(uint64_t);
		for (size_t i = 0; i < sizeof(behind_cgroup) / sizeof(behind_cgroup[0]); i++)
			at -= sample.present & behind_cgroup[i] ? sizeof(uint64_t) : 0;
		if (memcmp(at, &sample.cgroup, sizeof(uint64_t)) != 0)
			return -EBADMSG;
		move_word(at, shift->ids);
	}
	return 0;
}

/* The name of an object of the kernel, which is not that of the first machine: "[kernel of web2]", "[xfs of web2]". */
static void put_kernel_name(const struct host_shift *shift, const char *name, struct buf *out)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;

	base += *base == '[';
	size_t len = strcspn(base, "]");
	const char *suffix = strstr(base, ".ko");
	if (suffix && (size_t)(suffix - base) < len)
		len = (size_t)(suffix - base);
	if (strncmp(base, "kernel.kallsyms", 15) == 0)
		len = strlen("kernel");
	buf_printf(out, "[%.*s of %s]", (int)len, base, shift->name);
}

/* A map of the kernel: under another name, with the trailer of the record. */
static int put_kernel_map(const struct host_shift *shift, const struct task_event *event, size_t trailer_bytes,
			  const struct perf_event_header *record, struct buf *out)
{
	AUTO_BUF struct buf name = {0};
	struct record_mmap map = {
		.header = {.type = PERF_RECORD_MMAP, .misc = PERF_RECORD_MISC_KERNEL},
		.pid = UINT32_MAX,
		.addr = event->start,
		.len = event->len,
	};

	move_address(shift, &map.addr);
	put_kernel_name(shift, event->name.ptr, &name);
	out->len = 0;
	record_put(out, &map, sizeof(map), buf_span(&name), trailer_bytes);
	if (name.failed || out->failed)
		return -ENOMEM;
	if (out->len > UINT16_MAX)
		return -EBADMSG;
	memcpy(out->data + out->len - trailer_bytes, (const uint8_t *)record + record->size - trailer_bytes,
	       trailer_bytes);
	return 0;
}

/* The build-id into the record: a path may have another one on each machine. */
static void put_build_id(const struct host_shift *shift, const struct task_event *event, struct record_mmap2 *copy)
{
	const struct elf_id *id;

	if (event->type != PERF_RECORD_MMAP2 || event->id.build_id.len)
		return;
	copy->header.misc &= (uint16_t)~PERF_RECORD_MISC_MMAP_BUILD_ID; /* see object_id_take() */
	id = hash_table_find_item(&shift->build_ids, file_key(&event->id.file));
	if (!id)
		id = hash_table_find_item(&shift->build_ids, hash_text(event->name.ptr));
	if (!id || !id->len)
		return;
	uint8_t bytes[24] = {id->len};
	memcpy(bytes + 4, id->bytes, sizeof(id->bytes));
	memcpy(&copy->maj, bytes, sizeof(bytes));
	copy->header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
}

static int move_task_event(const struct host_shift *shift, const struct session_record *record, size_t trailer_bytes,
			   struct buf *out)
{
	struct perf_event_header *copy = (void *)out->data;
	uint8_t *body = (uint8_t *)(copy + 1);
	struct task_event event;

	if (task_event_decode(record->view.header, record->view.header, trailer_bytes, &event) <= 0)
		return -EBADMSG;
	bool maps = event.type == PERF_RECORD_MMAP || event.type == PERF_RECORD_MMAP2;
	bool kernel = maps && (event.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	if (kernel && shift->number)
		return put_kernel_map(shift, &event, trailer_bytes, record->view.header, out);
	unsigned nr = event.type == PERF_RECORD_FORK || event.type == PERF_RECORD_EXIT ? 4 : 2;
	for (unsigned i = 0; i < nr; i++)
		move_pid(shift, body + i * sizeof(uint32_t));
	if (nr == 4)
		move_word(&((struct record_fork *)copy)->time, (uint64_t)shift->time_ns);
	if (maps && !kernel)
		put_build_id(shift, &event, (struct record_mmap2 *)copy);
	return 0;
}

static int move_other(const struct host_shift *shift, struct perf_event_header *copy, size_t body_bytes)
{
	uint8_t *body = (uint8_t *)(copy + 1);
	bool short_of_words[4] = {false, body_bytes < 8, body_bytes < 16, body_bytes < 24};

	switch (copy->type) {
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		if (short_of_words[3])
			return -EBADMSG;
		move_word(body, (uint64_t)shift->time_ns);
		move_word(body + 8, shift->ids);
		move_word(body + 16, shift->ids);
		return 0;
	case PERF_RECORD_LOST:
	case PERF_RECORD_CGROUP:
		if (short_of_words[1])
			return -EBADMSG;
		move_word(body, shift->ids);
		return 0;
	case PERF_RECORD_KSYMBOL:
	case PERF_RECORD_TEXT_POKE:
		if (short_of_words[1])
			return -EBADMSG;
		move_address(shift, body);
		return 0;
	case PERF_RECORD_NAMESPACES:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		if (short_of_words[1])
			return -EBADMSG;
		move_pid(shift, body);
		move_pid(shift, body + sizeof(uint32_t));
		return 0;
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_SWITCH: return 0;
	default: return shift->number ? -ENOTSUP : 0;
	}
}

/* A kernel record that is no sample: its body, then its trailer. */
static int move_record(const struct host_shift *shift, const struct session_record *record, struct buf *out)
{
	static const uint64_t words[] = {PERF_SAMPLE_TID,
					 PERF_SAMPLE_TIME,
					 PERF_SAMPLE_ID,
					 PERF_SAMPLE_STREAM_ID,
					 PERF_SAMPLE_CPU,
					 PERF_SAMPLE_IDENTIFIER,
					 0};
	const struct perf_event_header *header = record->view.header;
	size_t trailer_bytes = record->event ? sample_id_bytes(&record->event->attr) : 0;
	int err;

	if (header->size < sizeof(*header) + trailer_bytes)
		return -EBADMSG;
	switch (header->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: err = move_task_event(shift, record, trailer_bytes, out); break;
	default: err = move_other(shift, (void *)out->data, header->size - sizeof(*header) - trailer_bytes); break;
	}
	if (!err && trailer_bytes)
		move_words(shift, record->event->attr.sample_type, words,
			   out->data + sample_id_end(out->data, trailer_bytes) - trailer_bytes);
	return err;
}

int host_shift_record(const struct host_shift *shift, const struct session_record *record, struct buf *out)
{
	const struct perf_event_header *header = record->view.header;
	bool of_recording = header->type >= RECORD_USER_FIRST || header->type == PERF_RECORD_BPF_EVENT;

	out->len = 0;
	if (of_recording && shift->number)
		return 0;
	buf_put(out, header, header->size);
	if (out->failed)
		return -ENOMEM;
	if (of_recording)
		return 0;
	return header->type == PERF_RECORD_SAMPLE ? move_sample(shift, record, (void *)out->data)
						  : move_record(shift, record, out);
}
