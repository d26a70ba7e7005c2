/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_details.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/chains.h"
#include "analyze/machine/machine.h"
#include "analyze/report/tracepoint.h"
#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "cmd/text/sample_details.h"
#include "perfdata/feature_machine.h"
#include "perfdata/layout.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

/* What a caller is with its lines and what it has in common with its callee. */
struct known_caller {
	const struct hist_details *common, *caller; /* common NULL: not in use */
	struct location at;
};

enum { KNOWN_CALLERS = 1 << 14 }; /* the last ones */

struct details {
	struct details_options options;
	struct session *session; /* borrowed, as the machine */
	struct machine *machine;
	struct tracepoints *formats; /* NULL until they are needed */
	struct feature_cpu_topology topology;
	bool topology_read;
	uint32_t parallelism;
	bool only_lines;                            /* no other key needs any details */
	struct chains *chains;                      /* NULL: lines are looked up at once */
	struct pool pool;                           /* what the tables hold */
	struct hash_table texts, known, fields;     /* strings, struct hist_details, struct hist_field, by their hash */
	struct hash_table lines;                    /* struct known_line, likewise */
	struct hash_table hosts;                    /* names of machines, by their number */
	const struct hist_details *callee, *common; /* see without_lines(); NULL: none yet */
	struct known_caller callers[KNOWN_CALLERS];
};

static bool needs(const struct details *details, enum hist_column key)
{
	return details->options.wanted[key];
}

struct details *details_new(const struct details_options *options, struct session *session, struct machine *machine)
{
	struct details *details = calloc(1, sizeof(*details));

	if (!details)
		return NULL;
	*details = (struct details){.options = *options, .session = session, .machine = machine, .only_lines = true};
	for (enum hist_column key = HIST_SOCKET; key < HIST_KEYS; key++)
		details->only_lines &= !options->wanted[key] || key == HIST_SRCLINE || key == HIST_SRCFILE;
	return details;
}

void details_set_parallelism(struct details *details, uint32_t parallelism)
{
	details->parallelism = parallelism;
}

void details_free(struct details *details)
{
	if (!details)
		return;
	hash_table_fini(&details->texts);
	hash_table_fini(&details->known);
	hash_table_fini(&details->fields);
	hash_table_fini(&details->lines);
	hash_table_fini(&details->hosts);
	tracepoints_close(details->formats);
	pool_fini(&details->pool);
	free(details);
}

/* The one object with that text. NULL: out of memory. */
static const char *keep_text(struct details *details, struct buf *text)
{
	const char *wanted = buf_text(text);
	uint64_t key = hash_text(wanted);

	for (struct hash_slot *slot = hash_table_find(&details->texts, key); slot;
	     slot = hash_table_next(&details->texts, slot))
		if (strcmp(slot->item, wanted) == 0)
			return slot->item;
	char *copy = text->failed ? NULL : pool_text(&details->pool, wanted, strlen(wanted));
	return copy && !hash_table_add(&details->texts, key, copy) ? copy : NULL;
}

/* Compared by their bytes: texts are one object each, and nothing is padding. */
static_assert(sizeof(struct hist_details) == (12 + HIST_FIELDS + HIST_NUMBERS) * sizeof(uint64_t) +
						     HIST_ENDS * sizeof(struct hist_place_end) &&
		      sizeof(struct hist_place_end) == 6 * sizeof(uint64_t),
	      "no padding");

/* Of what may be different in two of them. */
static uint64_t details_hash(const struct details *details, const struct hist_details *wanted)
{
	if (!details->only_lines)
		return hash_bytes(wanted, sizeof(*wanted));
	return hash_mix(hash_mix((uintptr_t)wanted->srcline, (uintptr_t)wanted->srcfile), (uintptr_t)wanted->line_at);
}

static const struct hist_details *keep(struct details *details, const struct hist_details *wanted)
{
	uint64_t key = details_hash(details, wanted);

	for (struct hash_slot *slot = hash_table_find(&details->known, key); slot;
	     slot = hash_table_next(&details->known, slot))
		if (memcmp(slot->item, wanted, sizeof(*wanted)) == 0)
			return slot->item;
	struct hist_details *copy = pool_take(&details->pool, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *wanted;
	return hash_table_add(&details->known, key, copy) ? NULL : copy;
}

/* -1: not in the recording. */
static int32_t socket_of(struct details *details, const struct sample *sample)
{
	struct feature_cpu_topology *topology = &details->topology;
	struct feature_nrcpus nr;
	struct feature_cpu_ids ids;
	struct span payload;

	if (!details->topology_read && session_feature(details->session, FEATURE_NRCPUS, &payload) &&
	    !feature_decode_nrcpus(payload, &nr) && session_feature(details->session, FEATURE_CPU_TOPOLOGY, &payload) &&
	    feature_decode_cpu_topology(payload, nr.available, topology))
		*topology = (struct feature_cpu_topology){0};
	details->topology_read = true;
	if (!topology->has_ids || !(sample->present & PERF_SAMPLE_CPU) || sample->cpu >= topology->nr_cpus)
		return -1;
	feature_cpu_topology_ids(topology, sample->cpu, &ids);
	return (int32_t)ids.package;
}

static const char *trace_of(struct details *details, const struct session_record *record, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};

	if (record->event->attr.type != PERF_TYPE_TRACEPOINT)
		buf_put_text(&text, "N/A");
	else if (trace_formats_open(details->session, machine_lookup(details->machine), &details->formats, reterr))
		return NULL;
	else if (details->formats && details->options.raw_trace)
		tracepoint_print_raw(details->formats, record->sample.raw, &text);
	else if (details->formats)
		tracepoint_print(details->formats, record->sample.raw, record->sample.cpu, &text);
	return keep_text(details, &text);
}

static bool same_field(const struct hist_field *a, const struct hist_field *b)
{
	return a->nr_bytes == b->nr_bytes && memcmp(a->bytes, b->bytes, a->nr_bytes) == 0 && a->text == b->text;
}

/* The one object with that value. NULL: out of memory. */
static const struct hist_field *keep_field(struct details *details, const struct hist_field *wanted)
{
	uint64_t key = hash_bytes(wanted->bytes, wanted->nr_bytes);

	for (struct hash_slot *slot = hash_table_find(&details->fields, key); slot;
	     slot = hash_table_next(&details->fields, slot))
		if (same_field(slot->item, wanted))
			return slot->item;
	struct hist_field *copy = pool_take(&details->pool, sizeof(*copy));
	uint8_t *bytes = pool_take(&details->pool, wanted->nr_bytes + 1);
	if (!copy || !bytes)
		return NULL;
	memcpy(bytes, wanted->bytes, wanted->nr_bytes);
	*copy = *wanted;
	copy->bytes = bytes;
	return hash_table_add(&details->fields, key, copy) ? NULL : copy;
}

/* 0, or -errno and why. */
static int add_field(struct details *details, const struct session_record *record, unsigned number,
		     struct hist_details *ret, struct diag *reterr)
{
	const struct trace_field *wanted = &details->options.fields[number];
	const struct tracepoint_field_query query = {wanted->name, wanted->raw, record->sample.cpu};
	AUTO_BUF struct buf text = {0};
	struct tracepoint_field found;
	size_t nr;

	if (record->event->attr.type != PERF_TYPE_TRACEPOINT ||
	    (wanted->event != SIZE_MAX && record->event != session_events(details->session, &nr) + wanted->event))
		return 0;
	int err = trace_formats_open(details->session, machine_lookup(details->machine), &details->formats, reterr);
	if (err || !details->formats ||
	    tracepoint_print_field(details->formats, record->sample.raw, &query, &found, &text))
		return err;
	struct hist_field field = {
		.text = keep_text(details, &text),
		.bytes = found.bytes.ptr,
		.nr_bytes = (uint32_t)found.bytes.len,
		.width = found.width,
	};
	ret->fields[number] = field.text ? keep_field(details, &field) : NULL;
	return ret->fields[number] ? 0 : -ENOMEM;
}

/* A place in code. */
struct known_line {
	struct location at;
	const char *line;                    /* NULL: not looked up yet */
	bool is_expected;                    /* by the thread that looks lines up */
	const struct hist_details *sample;   /* with details->only_lines: of samples there; NULL: not known yet */
	const struct hist_details *complete; /* likewise, with their lines */
};

static bool same_place(const struct location *a, const struct location *b)
{
	return a->dso == b->dso && a->address == b->address && a->symbol == b->symbol &&
	       a->nr_inlined == b->nr_inlined && a->is_return == b->is_return;
}

/* The one object for that place. NULL: out of memory. */
static struct known_line *known_line(struct details *details, const struct location *at)
{
	uint64_t key = hash_mix(hash_mix(at->address, (uintptr_t)at->dso), at->nr_inlined);

	for (struct hash_slot *slot = hash_table_find(&details->lines, key); slot;
	     slot = hash_table_next(&details->lines, slot)) {
		struct known_line *known = slot->item;
		if (same_place(&known->at, at))
			return known;
	}
	struct known_line *known = pool_take(&details->pool, sizeof(*known));
	if (!known || hash_table_add(&details->lines, key, known))
		return NULL;
	*known = (struct known_line){.at = *at};
	return known;
}

/* Callers are asked for once for each chain that they are in. NULL: out of memory. */
static const char *source_line_of(struct details *details, const struct location *at, unsigned flags)
{
	struct known_line *known = known_line(details, at);
	AUTO_BUF struct buf text = {0};

	if (!known || known->line)
		return known ? known->line : NULL;
	source_text_line(machine_debug_info(details->machine), at, flags, &text);
	known->line = keep_text(details, &text);
	return known->line;
}

/* false: out of memory. */
static bool add_source(struct details *details, const struct location *at, struct hist_details *ret)
{
	unsigned flags = SOURCE_SYMBOL | (details->options.full_paths ? SOURCE_FULL_PATH : 0);
	AUTO_BUF struct buf file = {0};

	if (needs(details, HIST_SRCLINE)) {
		ret->srcline = source_line_of(details, at, flags);
		if (!ret->srcline)
			return false;
	}
	if (needs(details, HIST_SRCFILE)) {
		source_text_file(machine_debug_info(details->machine), at, flags, &file);
		ret->srcfile = keep_text(details, &file);
		if (!ret->srcfile)
			return false;
	}
	return true;
}

/* Lines of other code are not those of a file, and may be others later. */
static bool waits_for_line(const struct details *details, const struct location *at)
{
	return details->chains && at->symbol && at->dso && !at->dso->jit && !at->dso->bpf_lines;
}

/* false: out of memory. */
static bool add_source_later(struct details *details, const struct location *at, struct hist_details *ret)
{
	struct known_line *known = known_line(details, at);

	if (!known)
		return false;
	if (!known->is_expected)
		chains_expect_line(details->chains, at);
	known->is_expected = true;
	ret->line_at = &known->at;
	return true;
}

static void set_number(struct hist_details *details, enum hist_column key, uint64_t number)
{
	details->numbers[key - HIST_WEIGHT] = number;
}

/* As a sample of an access to memory may know; perf asks by the mode of the sample. */
static void add_memory_numbers(const struct details *details, const struct sample *sample, struct hist_details *ret)
{
	const union perf_mem_data_src source = {.val = sample->data_src};

	if (needs(details, HIST_LOCKED))
		set_number(ret, HIST_LOCKED, (union perf_mem_data_src){.mem_lock = source.mem_lock}.val);
	if (needs(details, HIST_TLB))
		set_number(ret, HIST_TLB, (union perf_mem_data_src){.mem_dtlb = source.mem_dtlb}.val);
	if (needs(details, HIST_MEMORY))
		set_number(ret, HIST_MEMORY, source.val);
	if (needs(details, HIST_SNOOP))
		set_number(
			ret, HIST_SNOOP,
			(union perf_mem_data_src){.mem_snoop = source.mem_snoop, .mem_snoopx = source.mem_snoopx}.val);
	if (needs(details, HIST_BLOCKED))
		set_number(ret, HIST_BLOCKED, (union perf_mem_data_src){.mem_blk = source.mem_blk}.val);
	if (needs(details, HIST_PHYSICAL))
		set_number(ret, HIST_PHYSICAL, sample->phys_addr);
	if (needs(details, HIST_DATA_PAGE_SIZE))
		set_number(ret, HIST_DATA_PAGE_SIZE, sample->data_page_size);
	if (needs(details, HIST_TRANSACTION))
		set_number(ret, HIST_TRANSACTION, sample->transaction);
}

const char details_unknown_host[] = "unknown";

/* The name of the machine with that number. NULL: out of memory. */
static const char *host_name(struct details *details, uint32_t number)
{
	AUTO_BUF struct buf text = {0};
	struct span payload;
	const char *names;

	if (!session_feature(details->session, FEATURE_HOSTNAME, &payload) || feature_decode_string(payload, &names))
		return details_unknown_host;
	for (uint32_t nr = number; nr && *names; nr--)
		names += strcspn(names, ",") + (names[strcspn(names, ",")] == ',');
	buf_put(&text, names, strcspn(names, ","));
	return text.len ? keep_text(details, &text) : details_unknown_host;
}

/* The machine that a process ran on. NULL: out of memory. */
static const char *host_of(struct details *details, uint32_t pid)
{
	const uint32_t number = pid == UINT32_MAX ? 0 : pid / LAYOUT_PIDS_OF_HOST;
	const char *name = hash_table_find_item(&details->hosts, number);

	if (name)
		return name;
	name = host_name(details, number);
	return name && !hash_table_add(&details->hosts, number, (void *)(uintptr_t)name) ? name : NULL;
}

/* The numbers of a sample that are needed. */
static void add_numbers(const struct details *details, const struct session_record *record, struct hist_details *ret)
{
	const struct sample *sample = &record->sample;

	if (needs(details, HIST_WEIGHT))
		set_number(ret, HIST_WEIGHT, sample_weight(sample));
	if (needs(details, HIST_LOCAL_WEIGHT))
		set_number(ret, HIST_LOCAL_WEIGHT, sample_weight(sample));
	if (needs(details, HIST_INS_LAT))
		set_number(ret, HIST_INS_LAT, sample_instruction_latency(sample));
	if (needs(details, HIST_LOCAL_INS_LAT))
		set_number(ret, HIST_LOCAL_INS_LAT, sample_instruction_latency(sample));
	if (needs(details, HIST_CODE_PAGE_SIZE))
		set_number(ret, HIST_CODE_PAGE_SIZE, sample->code_page_size);
	add_memory_numbers(details, sample, ret);
	if (needs(details, HIST_PARALLELISM))
		set_number(ret, HIST_PARALLELISM, details->parallelism);
	if (needs(details, HIST_CGROUP)) {
		set_number(ret, HIST_CGROUP, sample->cgroup);
		ret->cgroup = machine_cgroup(details->machine, sample->cgroup);
	}
	if (needs(details, HIST_CGROUP_ID)) {
		const struct task *task = machine_task(details->machine, sample->pid, sample->tid);
		ret->cgroup_device = task ? task->cgroup_namespace.device : 0;
		set_number(ret, HIST_CGROUP_ID, task ? task->cgroup_namespace.inode : 0);
	}
}

/* And those of a place in code. */
static void add_place_numbers(const struct details *details, const struct location *at, struct hist_details *ret)
{
	if (needs(details, HIST_ADDRESS))
		set_number(ret, HIST_ADDRESS, at->ip);
	if (needs(details, HIST_SYM_SIZE))
		set_number(ret, HIST_SYM_SIZE, at->symbol ? at->symbol->end - at->symbol->start : 0);
	if (needs(details, HIST_DSO_SIZE))
		set_number(ret, HIST_DSO_SIZE, (uint64_t)at->map_pages << 12);
}

/* What the keys from `dso` on need of an end: its object, symbol, address and line. false: out of memory. */
static bool add_code_end(struct details *details, enum hist_column dso, const struct location *at,
			 struct hist_details *ret)
{
	enum hist_column symbol = dso + (HIST_SYM_FROM - HIST_DSO_FROM);
	enum hist_column address = dso + (HIST_ADDRESS_FROM - HIST_DSO_FROM);
	enum hist_column line = dso + (HIST_SRCLINE_FROM - HIST_DSO_FROM);
	struct hist_place_end *end = &ret->ends[hist_end_of(dso)];
	AUTO_BUF struct buf text = {0};

	if (needs(details, dso) || needs(details, symbol) || needs(details, address))
		*end = (struct hist_place_end){.dso = at->dso, .symbol = at->symbol, .level = (uint8_t)at->level};
	if (needs(details, address) || (needs(details, symbol) && !at->symbol)) {
		end->ip = at->ip;
		end->address = at->address;
	}
	if (needs(details, line)) {
		source_text_line(machine_debug_info(details->machine), at,
				 SOURCE_SYMBOL | (details->options.full_paths ? SOURCE_FULL_PATH : 0), &text);
		end->srcline = keep_text(details, &text);
	}
	return !needs(details, line) || end->srcline;
}

const struct hist_details *details_of_branch(struct details *details, const struct hist_details *sample,
					     const struct session_record *record, uint64_t index,
					     const struct branch_ends *ends)
{
	const struct sample_branch_stack *branches = &record->sample.branches;
	const struct perf_branch_entry *entry = &branches->entries[index];
	/* perf's weight of all branches of a sample is that of the first one. */
	uint64_t weight = branches->entries[0].cycles ? branches->entries[0].cycles : 1;
	struct hist_details found = *sample;

	if (needs(details, HIST_WEIGHT))
		set_number(&found, HIST_WEIGHT, weight);
	if (needs(details, HIST_LOCAL_WEIGHT))
		set_number(&found, HIST_LOCAL_WEIGHT, weight);
	if (needs(details, HIST_MISPREDICTED))
		set_number(&found, HIST_MISPREDICTED, (uint64_t)entry->mispred << 1 | entry->predicted);
	if (needs(details, HIST_ABORTED))
		set_number(&found, HIST_ABORTED, entry->abort);
	if (needs(details, HIST_IN_TRANSACTION))
		set_number(&found, HIST_IN_TRANSACTION, entry->in_tx);
	if (needs(details, HIST_CYCLES))
		set_number(&found, HIST_CYCLES, entry->cycles);
	if (!add_code_end(details, HIST_DSO_FROM, ends->from, &found) ||
	    !add_code_end(details, HIST_DSO_TO, ends->to, &found) || !add_source(details, ends->to, &found))
		return NULL;
	add_place_numbers(details, ends->to, &found);
	return keep(details, &found);
}

/* perf's levels of cache lines: shared data of a file, and what is not mapped. */
static uint64_t data_level(const struct location *data, uint8_t cpumode)
{
	return cpumode != PERF_RECORD_MISC_KERNEL && !data->dso ? 'X' : (uint8_t)data->level;
}

const struct hist_details *details_of_access(struct details *details, const struct hist_details *sample,
					     const struct session_record *record, const struct access_ends *ends)
{
	struct hist_details found = *sample;
	struct hist_place_end *data = &found.ends[HIST_DATA], *code = &found.ends[HIST_CODE];

	if (needs(details, HIST_DSO_DATA) || needs(details, HIST_CACHE_LINE))
		data->dso = ends->data->dso;
	if (needs(details, HIST_SYM_DATA) || needs(details, HIST_CACHE_LINE)) {
		data->symbol = ends->data->symbol;
		data->ip = ends->data->ip;
		data->address = ends->data->address;
		data->level = data_level(ends->data, record->sample.cpumode);
	}
	if (needs(details, HIST_SYM_CODE)) {
		code->symbol = ends->code->symbol;
		code->ip = ends->code->ip;
		code->address = ends->code->address;
		code->level = (uint8_t)ends->code->level;
	}
	return keep(details, &found);
}

/* *reterr may stay empty: out of memory. */
static int find_details(struct details *details, const struct session_record *record, const struct location *at,
			const struct hist_details **ret, struct diag *reterr)
{
	uint64_t quantum = details->options.quantum_ns, time = record->sample.time;
	struct hist_details found = {0};

	if (needs(details, HIST_TIME))
		found.time_ns = quantum ? time / quantum * quantum : time;
	if (needs(details, HIST_SOCKET))
		found.socket = socket_of(details, &record->sample);
	if (needs(details, HIST_TRACE)) {
		found.trace = trace_of(details, record, reterr);
		if (!found.trace)
			return -EBADMSG;
	}
	if (needs(details, HIST_STATE))
		found.state = "on CPU";
	if (needs(details, HIST_WAKER))
		found.waker = "N/A";
	if (needs(details, HIST_HOST)) {
		found.host = host_of(details, record->sample.pid);
		if (!found.host)
			return -ENOMEM;
	}
	for (unsigned i = 0; i < HIST_FIELDS; i++) {
		int err = needs(details, HIST_FIELD + i) ? add_field(details, record, i, &found, reterr) : 0;
		if (err)
			return err;
	}
	add_numbers(details, record, &found);
	add_place_numbers(details, at, &found);
	const bool later =
		(needs(details, HIST_SRCLINE) || needs(details, HIST_SRCFILE)) && waits_for_line(details, at);
	if (!(later ? add_source_later(details, at, &found) : add_source(details, at, &found)))
		return -ENOMEM;
	*ret = keep(details, &found);
	return *ret ? 0 : -ENOMEM;
}

/* `common` with the lines of a place. NULL: out of memory. */
static const struct hist_details *with_lines(struct details *details, const struct hist_details *common,
					     const struct location *at)
{
	struct hist_details found = *common;

	found.line_at = NULL;
	return add_source(details, at, &found) ? keep(details, &found) : NULL;
}

/* Where nothing but lines is known: whatever the callee. NULL: out of memory. */
static const struct hist_details *only_lines_of(struct details *details, const struct location *at)
{
	static const struct hist_details nothing;
	struct known_line *known = known_line(details, at);

	if (known && !known->complete)
		known->complete = with_lines(details, &nothing, at);
	return known ? known->complete : NULL;
}

/* As find_details(), where they depend on the place alone. 0 or -ENOMEM. */
static int find_lines(struct details *details, const struct session_record *record, const struct location *at,
		      const struct hist_details **ret)
{
	struct known_line *known = known_line(details, at);
	int err = known ? 0 : -ENOMEM;

	if (known && !known->sample)
		err = find_details(details, record, at, &known->sample, NULL);
	if (!err)
		*ret = known->sample;
	return err;
}

void details_complete_later(struct details *details, struct chains *chains)
{
	details->chains = chains;
}

void details_complete_begin(struct details *details)
{
	details->chains = NULL;
	for (size_t i = 0; i < details->lines.nr_slots; i++) {
		struct known_line *known = details->lines.slots[i].item;
		if (known)
			known->sample = NULL;
	}
}

const struct hist_details *details_complete(struct details *details, const struct hist_details *sample)
{
	if (!sample->line_at)
		return sample;
	return details->only_lines ? only_lines_of(details, sample->line_at)
				   : with_lines(details, sample, sample->line_at);
}

int details_of_sample(struct details *details, const struct session_record *record, const struct location *at,
		      const struct hist_details **ret, struct diag *reterr)
{
	reterr->text[0] = '\0';
	int err = details->only_lines ? find_lines(details, record, at, ret)
				      : find_details(details, record, at, ret, reterr);
	return err && !reterr->text[0] ? diag_set(reterr, err, "out of memory") : err;
}

const struct hist_details *details_of_host(struct details *details, const char *host)
{
	AUTO_BUF struct buf text = {0};
	struct hist_details found = {0};

	buf_put_text(&text, host);
	found.host = needs(details, HIST_HOST) ? keep_text(details, &text) : NULL;
	return needs(details, HIST_HOST) && !found.host ? NULL : keep(details, &found);
}

/* What a sample has in common with all callers in its chain: all but lines. NULL: out of memory. */
static const struct hist_details *without_lines(struct details *details, const struct hist_details *callee)
{
	if (details->callee != callee) {
		struct hist_details common = *callee;
		common.srcline = common.srcfile = NULL;
		details->common = keep(details, &common);
		details->callee = callee;
	}
	return details->common;
}

/* There are many callers in chains, of few lines. NULL: out of memory. */
static const struct hist_details *lines_of_caller(struct details *details, const struct hist_details *callee,
						  const struct location *at)
{
	const struct hist_details *common = without_lines(details, callee);
	uint64_t key = hash_mix(hash_mix((uintptr_t)common, (uintptr_t)at->symbol), at->address + at->nr_inlined);
	struct known_caller *known = &details->callers[(key >> 32) % KNOWN_CALLERS];

	if (!common)
		return NULL;
	if (known->common == common && same_place(&known->at, at))
		return known->caller;
	const struct hist_details *caller = with_lines(details, common, at);
	if (caller)
		*known = (struct known_caller){common, caller, *at};
	return caller;
}

/* Do callers keep numbers of their callee, and have some of their own? */
static bool has_place_numbers(const struct details *details)
{
	return needs(details, HIST_ADDRESS) || needs(details, HIST_SYM_SIZE) || needs(details, HIST_DSO_SIZE);
}

const void *details_of_callers(struct details *details, const struct hist_details *callee)
{
	if (details->only_lines)
		return details;
	return has_place_numbers(details) ? callee : without_lines(details, callee);
}

const struct hist_details *details_of_caller(struct details *details, const struct hist_details *callee,
					     const struct location *at)
{
	if (details->only_lines)
		return only_lines_of(details, at);
	if (!has_place_numbers(details))
		return lines_of_caller(details, callee, at);
	struct hist_details found = *callee;
	add_place_numbers(details, at, &found);
	return add_source(details, at, &found) ? keep(details, &found) : NULL;
}

const struct hist_details *details_of_parent(struct details *details, const struct hist_details *sample,
					     const char *parent)
{
	struct hist_details found = *sample;
	AUTO_BUF struct buf text = {0};

	buf_put_text(&text, parent);
	found.parent = keep_text(details, &text);
	return found.parent ? keep(details, &found) : NULL;
}

/* Of a task that may have another name later; "?": no record tells of it. */
static const char *waker_text(struct details *details, const struct off_cpu_wait *wait)
{
	AUTO_BUF struct buf text = {0};
	struct task *task;

	if (wait->flags & OFF_CPU_BY_INTERRUPT)
		return "interrupt";
	if (!wait->waker_pid && !wait->waker_tid)
		return wait->flags & OFF_CPU_NO_WAKE_UP ? "unknown" : "N/A";
	task = machine_task(details->machine, wait->waker_pid, wait->waker_tid);
	if (!task)
		return NULL;
	buf_printf(&text, "%s:%u", task->comm && task->comm->text ? task->comm->text : "?", wait->waker_tid);
	return keep_text(details, &text);
}

const struct hist_details *details_of_wait(struct details *details, const struct hist_details *sample,
					   const struct off_cpu_wait *wait, bool ready)
{
	struct hist_details found = *sample;

	if (needs(details, HIST_STATE))
		found.state = off_cpu_state_name(wait, ready);
	if (needs(details, HIST_WAKER))
		found.waker = waker_text(details, wait);
	return needs(details, HIST_WAKER) && !found.waker ? NULL : keep(details, &found);
}
