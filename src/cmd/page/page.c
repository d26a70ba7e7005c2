/* SPDX-License-Identifier: MIT */
#include "cmd/page/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/text.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/result_file.h"
#include "perfdata/ledger.h"

enum { MAX_GAPS = 2000, FINEST_GAP = 4096, MAX_CELLS = 1 << 16 /* of the table of CPUs */, MAX_STATES = 32 };

/* src/cmd/page/page.html, see meson.build. */
extern const char page_html[];

static const char data_mark[] = "@DATA@";

/* By enum page_kind. */
static const char *const kind_names[PAGE_KINDS] = {"user",        "kernel",  "jit", "inlined",
						   "interpreter", "unknown", "task"};

/* LEB128, as in DWARF. */
static void put_varint(struct buf *buf, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buf_put_u8(buf, (uint8_t)(value | 0x80));
	buf_put_u8(buf, (uint8_t)value);
}

static void put_base64(struct buf *out, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t b1 = i + 1 < len ? bytes[i + 1] : 0, b2 = i + 2 < len ? bytes[i + 2] : 0;
		uint32_t group = (uint32_t)bytes[i] << 16 | b1 << 8 | b2;
		char four[4] = {digits[group >> 18], digits[group >> 12 & 63],
				i + 1 < len ? digits[group >> 6 & 63] : '=', i + 2 < len ? digits[group & 63] : '='};
		buf_put(out, four, sizeof(four));
	}
}

/* The bytes as a zlib stream in base64: every browser since 2023 has a DecompressionStream. */
static int put_section(struct json_writer *json, const char *key, const struct buf *bytes)
{
	uLongf len = compressBound(bytes->len);
	uint8_t *packed = malloc(len);
	struct buf text = {0};
	int err = packed && !bytes->failed ? 0 : -ENOMEM;

	if (!err && compress2(packed, &len, bytes->data ? bytes->data : (const uint8_t *)"", bytes->len, 6) != Z_OK)
		err = -ENOMEM;
	if (!err) {
		put_base64(&text, packed, len);
		err = buf_status(&text);
	}
	if (!err)
		json_bytes(json, key, (const char *)text.data, text.len);
	json_break(json);
	free(packed);
	buf_fini(&text);
	return err;
}

/* Objects by the numbers that names have for them. */
struct objects {
	const char **texts;
	uint32_t nr;
	struct hash_table by_text;
};

static int find_object(struct objects *objects, const char *text, uint32_t *ret)
{
	uint64_t key = hash_text(text);

	for (struct hash_slot *slot = hash_table_find(&objects->by_text, key); slot;
	     slot = hash_table_next(&objects->by_text, slot)) {
		*ret = (uint32_t)slot->number - 1;
		if (!strcmp(objects->texts[*ret], text))
			return 0;
	}
	if (hash_table_add_number(&objects->by_text, key, objects->nr + 1ull))
		return -ENOMEM;
	objects->texts[objects->nr] = text;
	*ret = objects->nr++;
	return 0;
}

static int put_names(struct json_writer *page, const struct page_tree *tree)
{
	struct buf text = {0};
	struct json_writer json = {.buf = &text};
	struct objects objects = {.texts = calloc(tree->nr_names + 1ull, sizeof(*objects.texts))};
	int err = objects.texts ? 0 : -ENOMEM;

	json_object(&json, NULL);
	json_array(&json, "texts");
	for (uint32_t i = 0; i < tree->nr_names; i++)
		json_text(&json, NULL, tree->names[i].text);
	json_end(&json);
	json_array(&json, "kinds");
	for (uint32_t i = 0; i < tree->nr_names; i++)
		json_number(&json, NULL, tree->names[i].kind);
	json_end(&json);
	json_array(&json, "object_of");
	for (uint32_t i = 0; i < tree->nr_names && !err; i++) {
		uint32_t object = 0;
		err = find_object(&objects, tree->names[i].object, &object);
		json_number(&json, NULL, object);
	}
	json_end(&json);
	json_array(&json, "objects");
	for (uint32_t i = 0; i < objects.nr; i++)
		json_text(&json, NULL, objects.texts[i]);
	json_end(&json);
	json_end(&json);
	if (!err)
		err = put_section(page, "names", &text);
	buf_fini(&text);
	hash_table_fini(&objects.by_text);
	free(objects.texts);
	return err;
}

/*
 * The nodes without the root, callers before what they called: of each how many levels it stands above a callee of the
 * one before, and its name.
 */
static int put_nodes(struct json_writer *json, const struct page_tree *tree)
{
	struct buf up = {0}, names = {0};

	for (uint32_t i = 1; i < tree->nr_nodes; i++) {
		uint32_t levels = 0;
		for (uint32_t at = i - 1; at != tree->nodes[i].parent; at = tree->nodes[at].parent)
			levels++;
		put_varint(&up, levels);
		put_varint(&names, tree->nodes[i].name);
	}
	json_number(json, "nr_nodes", tree->nr_nodes);
	int err = put_section(json, "node_up", &up);
	if (!err)
		err = put_section(json, "node_name", &names);
	buf_fini(&up);
	buf_fini(&names);
	return err;
}

static void put_threads(struct json_writer *json, const struct page_tree *tree)
{
	json_array(json, "threads");
	for (uint32_t i = 0; i < tree->nr_threads; i++) {
		const struct page_thread *thread = &tree->threads[i];
		json_object(json, NULL);
		json_text(json, "comm", thread->comm ? thread->comm : "other threads");
		json_signed(json, "pid", thread->comm ? (int32_t)thread->pid : -1);
		json_signed(json, "tid", thread->comm ? (int32_t)thread->tid : -1);
		json_end(json);
	}
	json_end(json);
	json_break(json);
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The weights of one series: [from, to). */
struct slice {
	size_t from, to;
};

static struct slice series_slice(const struct page_tree *tree, uint32_t series, size_t from)
{
	struct slice slice = {from, from};

	while (slice.to < tree->nr_weights && tree->weights[slice.to].series == series)
		slice.to++;
	return slice;
}

/* Which threads, and how many weights each has. */
static void put_series_threads(struct json_writer *json, const struct page_tree *tree, struct slice slice)
{
	json_array(json, "threads");
	for (size_t i = slice.from, end; i < slice.to; i = end) {
		for (end = i; end < slice.to && tree->weights[end].thread == tree->weights[i].thread;)
			end++;
		json_array(json, NULL);
		json_number(json, NULL, tree->weights[i].thread);
		json_number(json, NULL, end - i);
		json_end(json);
	}
	json_end(json);
}

/* The streams of one series: node and bin as differences, what was counted as a multiple of `unit`. */
static int put_weights(struct json_writer *json, const struct page_tree *tree, struct slice slice, uint64_t unit)
{
	struct buf nodes = {0}, bins = {0}, periods = {0}, samples = {0};
	const struct page_weight *before = NULL;
	bool alike = true;

	for (size_t i = slice.from; i < slice.to; i++) {
		const struct page_weight *weight = &tree->weights[i];
		bool same_thread = before && before->thread == weight->thread;
		bool same_node = same_thread && before->node == weight->node;
		put_varint(&nodes, weight->node - (same_thread ? before->node : 0));
		put_varint(&bins, weight->bin - (same_node ? before->bin : 0));
		put_varint(&periods, weight->period / unit);
		put_varint(&samples, weight->nr);
		alike = alike && weight->period / unit == weight->nr;
		before = weight;
	}
	json_number(json, "weights", slice.to - slice.from);
	int err = put_section(json, "node", &nodes);
	if (!err)
		err = put_section(json, "bin", &bins);
	if (!err)
		err = put_section(json, "period", &periods);
	if (!err && !alike)
		err = put_section(json, "nr", &samples); /* missing: as the periods */
	buf_fini(&nodes);
	buf_fini(&bins);
	buf_fini(&periods);
	buf_fini(&samples);
	return err;
}

static int put_one_series(struct json_writer *json, const struct page *page, uint32_t number, struct slice slice)
{
	const struct page_tree *tree = page->tree;
	const struct page_series *series = &page->series[number];
	uint64_t unit = 0, nr = 0;

	for (size_t i = slice.from; i < slice.to; i++) {
		unit = greatest_divisor(tree->weights[i].period, unit);
		nr += tree->weights[i].nr;
	}
	unit = unit ? unit : 1;
	json_object(json, NULL);
	json_text(json, "name", series->name);
	json_number(json, "file", series->file);
	json_signed(json, "baseline", series->baseline);
	if (series->role != PAGE_OTHER)
		json_text(json, "role", series->role == PAGE_ON_CPU ? "on" : "off");
	if (series->role == PAGE_ON_CPU)
		json_printf(json, "unit_ns", "%.9g", series->unit_ns);
	json_number(json, "samples", nr);
	json_number(json, "unit", unit);
	put_series_threads(json, tree, slice);
	int err = put_weights(json, tree, slice, unit);
	json_end(json);
	return err;
}

static int put_series(struct json_writer *json, const struct page *page)
{
	struct slice slice = {0, 0};
	int err = 0;

	json_array(json, "series");
	for (uint32_t i = 0; i < page->nr_series && !err; i++) {
		slice = series_slice(page->tree, i, slice.to);
		err = put_one_series(json, page, i, slice);
	}
	json_end(json);
	json_break(json);
	return err;
}

/* The number of a state among those that there are. */
static uint32_t state_number(const char *states[], uint32_t *nr, const char *state)
{
	uint32_t i = 0;

	while (i < *nr && strcmp(states[i], state))
		i++;
	if (i == *nr && i < MAX_STATES)
		states[(*nr)++] = state;
	return i;
}

/* The threads that have stretches, and how many each has; not those that are put together as one. */
static size_t put_stretch_threads(struct json_writer *json, const struct page_tree *tree)
{
	size_t end = 0;

	json_array(json, "threads");
	for (size_t i = 0; i < tree->nr_stretches; i = end) {
		uint32_t thread = tree->stretches[i].thread;
		if (!tree->threads[thread].comm)
			break;
		for (end = i; end < tree->nr_stretches && tree->stretches[end].thread == thread;)
			end++;
		json_array(json, NULL);
		json_number(json, NULL, thread);
		json_number(json, NULL, end - i);
		json_end(json);
	}
	json_end(json);
	return end;
}

/*
 * The stretches of time off the CPU, by thread: how long after the one before each began, how long it is, and how much
 * of it the thread was off the CPU, and could have run; "open": whether it is not known what came behind it.
 */
static int put_stretches(struct json_writer *json, const struct page_tree *tree, const struct page_file *file)
{
	enum { SINCE, LENGTH, OFF, READY, NODE, STATE, WAKER, TIMES, OPEN, PARTS };
	static const char *const keys[PARTS] = {"since", "length", "off",   "ready", "node",
						"state", "waker",  "times", "open"};
	const char *states[MAX_STATES];
	struct buf parts[PARTS] = {0}, wakers = {0};
	struct json_writer texts = {.buf = &wakers};
	uint64_t first_ns = UINT64_MAX;
	uint32_t nr_states = 0;
	int err = 0;

	json_object(json, "waits");
	for (size_t i = 0; i < tree->nr_stretches; i++)
		if (tree->stretches[i].wait->from_ns < first_ns)
			first_ns = tree->stretches[i].wait->from_ns;
	size_t nr = put_stretch_threads(json, tree);
	uint64_t at_ns = first_ns;
	for (size_t i = 0; i < nr; i++) {
		const struct page_wait *wait = tree->stretches[i].wait;
		if (!i || tree->stretches[i - 1].thread != tree->stretches[i].thread)
			at_ns = first_ns;
		/* A thread waits for one thing at a time: else records came out of order. */
		uint64_t from_ns = wait->from_ns > at_ns ? wait->from_ns : at_ns;
		uint64_t to_ns = wait->to_ns > from_ns ? wait->to_ns : from_ns;
		put_varint(&parts[SINCE], from_ns - at_ns);
		put_varint(&parts[LENGTH], to_ns - from_ns);
		put_varint(&parts[OFF], wait->off_ns);
		put_varint(&parts[READY], wait->ready_ns);
		put_varint(&parts[NODE], tree->stretches[i].node);
		put_varint(&parts[STATE], state_number(states, &nr_states, wait->state));
		put_varint(&parts[WAKER], wait->waker);
		put_varint(&parts[TIMES], wait->nr);
		put_varint(&parts[OPEN], wait->goes_on);
		at_ns = to_ns;
	}
	json_signed(json, "first_ns", (int64_t)(first_ns - file->times->start_ns));
	json_number(json, "nr", nr);
	json_number(json, "left_out", tree->nr_stretches - nr);
	json_number(json, "short_ns", file->waits->short_ns);
	json_array(json, "states");
	for (uint32_t i = 0; i < nr_states; i++)
		json_text(json, NULL, states[i]);
	json_end(json);
	for (unsigned i = 0; i < PARTS && !err; i++)
		err = put_section(json, keys[i], &parts[i]);
	json_array(&texts, NULL);
	for (uint32_t i = 0; i < file->waits->nr_wakers; i++)
		json_text(&texts, NULL, file->waits->wakers[i]);
	json_end(&texts);
	if (!err)
		err = put_section(json, "wakers", &wakers);
	json_end(json);
	for (unsigned i = 0; i < PARTS; i++)
		buf_fini(&parts[i]);
	buf_fini(&wakers);
	return err;
}

static int compare_cpus(const void *left, const void *right)
{
	const struct page_cpu *a = left, *b = right;

	return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

/* The samples of each CPU, in intervals that are so long that the table stays small. */
static int put_cpus(struct json_writer *json, const struct page_times *times)
{
	unsigned by = 1, nr = 0;
	struct page_cpu *cpus = calloc(times->nr_cpus + 1ull, sizeof(*cpus));

	if (!cpus)
		return -ENOMEM;
	if (times->nr_cpus)
		memcpy(cpus, times->cpus, times->nr_cpus * sizeof(*cpus));
	qsort(cpus, times->nr_cpus, sizeof(*cpus), compare_cpus);
	while (by < PAGE_CPU_BINS / 16 && PAGE_CPU_BINS / by * (uint64_t)times->nr_cpus > MAX_CELLS)
		by *= 2;
	if (times->cpu_bin_ns)
		nr = (unsigned)((times->end_ns - times->start_ns) / times->cpu_bin_ns / by) + 1;
	json_number(json, "cpu_bin_ns", times->cpu_bin_ns * by);
	json_number(json, "cpu_bins", nr);
	json_array(json, "cpus");
	for (uint32_t i = 0; i < times->nr_cpus; i++) {
		json_object(json, NULL);
		json_signed(json, "cpu", cpus[i].cpu);
		json_array(json, "samples");
		for (unsigned bin = 0; bin < nr; bin++) {
			uint64_t samples = 0;
			for (unsigned j = bin * by; j < (bin + 1) * by && j < PAGE_CPU_BINS; j++)
				samples += cpus[i].bins[j];
			json_number(json, NULL, samples);
		}
		json_end(json);
		json_end(json);
		json_break(json);
	}
	json_end(json);
	free(cpus);
	return 0;
}

/* Makes one of gaps of a CPU that are of one cause and follow each other, if it is no longer than that. */
static size_t join_gaps(struct ledger_entry *gaps, size_t nr, uint64_t within_ns)
{
	size_t kept = 0, latest[LEDGER_CAUSES + 1] = {0}; /* by cause: the last one, + 1; all unknown causes are one */

	for (size_t i = 0; i < nr; i++) {
		const struct ledger_entry *gap = &gaps[i];
		size_t *at = &latest[gap->cause < LEDGER_CAUSES ? gap->cause : LEDGER_CAUSES];
		struct ledger_entry *last = *at ? &gaps[*at - 1] : NULL;
		bool alike = last && gap->cpu == last->cpu;
		uint64_t from_ns = alike && last->from_ns < gap->from_ns ? last->from_ns : gap->from_ns;
		uint64_t to_ns = alike && last->to_ns > gap->to_ns ? last->to_ns : gap->to_ns;
		if (!alike || to_ns - from_ns > within_ns) {
			gaps[kept++] = *gap;
			*at = kept;
			continue;
		}
		last->from_ns = from_ns;
		last->to_ns = to_ns;
		last->count += gap->count;
	}
	return kept;
}

/* They are by CPU and time. Of very many those near each other are one, so that no CPU is left without its own. */
static int put_gaps(struct json_writer *json, const struct page_file *file)
{
	const struct page_times *times = file->times;
	uint64_t span_ns = times->end_ns - times->start_ns, within_ns = span_ns / FINEST_GAP + 1;
	size_t nr = file->nr_gaps;
	struct ledger_entry *gaps = calloc(nr + 1, sizeof(*gaps));

	if (!gaps)
		return -ENOMEM;
	if (nr)
		memcpy(gaps, file->gaps, nr * sizeof(*gaps));
	for (; nr > MAX_GAPS && within_ns / 2 <= span_ns; within_ns *= 2)
		nr = join_gaps(gaps, nr, within_ns);
	json_array(json, "gaps");
	for (size_t i = 0; i < nr && i < MAX_GAPS; i++) {
		const struct ledger_entry *gap = &gaps[i];
		json_object(json, NULL);
		json_signed(json, "cpu", gap->cpu);
		json_signed(json, "from_ns", (int64_t)(gap->from_ns - times->start_ns));
		json_signed(json, "to_ns", (int64_t)(gap->to_ns - times->start_ns));
		json_number(json, "records", gap->count);
		json_text(json, "cause", ledger_cause_name(gap->cause));
		json_end(json);
	}
	json_end(json);
	free(gaps);
	return 0;
}

static int put_files(struct json_writer *json, const struct page *page)
{
	int err = 0;

	json_array(json, "files");
	for (uint32_t i = 0; i < page->nr_files && !err; i++) {
		const struct page_file *file = &page->files[i];
		const struct page_times *times = file->times;
		json_object(json, NULL);
		json_text(json, "name", file->name);
		json_number(json, "start_ns", times->start_ns);
		json_number(json, "bin_ns", times->bin_ns);
		json_number(json, "span_ns", times->end_ns - times->start_ns);
		/* Sums of a store have no CPUs; what has no times ends when it starts. */
		bool timed = times->nr_cpus || times->end_ns > times->start_ns;
		json_number(json, "bins", timed ? (times->end_ns - times->start_ns) / times->bin_ns + 1 : 0);
		json_number(json, "lost", file->lost);
		err = put_cpus(json, times);
		if (!err)
			err = put_gaps(json, file);
		if (!err && file->waits && page->tree->nr_stretches)
			err = put_stretches(json, page->tree, file);
		json_end(json);
		json_break(json);
	}
	json_end(json);
	json_break(json);
	return err;
}

static void put_notes(struct json_writer *json, const struct page *page)
{
	const struct page_tree *tree = page->tree;
	uint64_t lost = 0;
	char text[128];

	for (uint32_t i = 0; i < page->nr_files; i++)
		lost += page->files[i].lost;
	json_array(json, "notes");
	snprintf(text, sizeof(text), "%" PRIu64 " sample%s.", tree->nr_samples, text_s(tree->nr_samples));
	json_text(json, NULL, text);
	snprintf(text, sizeof(text), "%" PRIu64 " sample%s lost.", lost, lost == 1 ? " was" : "s were");
	if (lost)
		json_text(json, NULL, text);
	snprintf(text, sizeof(text), "%" PRIu64 " sample%s with a caller: branches with few samples are cut off.",
		 tree->nr_cut, tree->nr_cut == 1 ? " stands" : "s stand");
	if (tree->nr_cut)
		json_text(json, NULL, text);
	json_end(json);
	json_break(json);
}

static void put_texts(struct json_writer *json, const struct page *page)
{
	json_array(json, "texts");
	for (size_t i = 0; i < page->nr_texts; i++) {
		json_object(json, NULL);
		json_text(json, "title", page->texts[i].title);
		json_text(json, "text", page->texts[i].text);
		json_end(json);
		json_break(json);
	}
	json_end(json);
	json_break(json);
}

static int put_table(struct json_writer *json, const struct page *page)
{
	struct buf text = {0};

	if (!page->table)
		return 0;
	buf_put_text(&text, page->table);
	int err = put_section(json, "table", &text);
	buf_fini(&text);
	return err;
}

static int put_data(struct json_writer *json, const struct page *page)
{
	json_object(json, NULL);
	json_number(json, "version", 2);
	json_text(json, "title", page->title);
	json_array(json, "kind_names");
	for (unsigned i = 0; i < PAGE_KINDS; i++)
		json_text(json, NULL, kind_names[i]);
	json_end(json);
	json_break(json);
	int err = put_names(json, page->tree);
	if (!err)
		err = put_nodes(json, page->tree);
	put_threads(json, page->tree);
	if (!err)
		err = put_series(json, page);
	if (!err)
		err = put_files(json, page);
	put_notes(json, page);
	put_texts(json, page);
	if (!err)
		err = put_table(json, page);
	json_end(json);
	return err;
}

int page_print(const struct page *page, FILE *to)
{
	const char *mark = strstr(page_html, data_mark);
	struct json_writer json = {.to = to};

	fwrite(page_html, 1, (size_t)(mark - page_html), to);
	fputc('\n', to);
	int err = put_data(&json, page);
	fputc('\n', to);
	fputs(mark + strlen(data_mark), to);
	return err;
}

int page_write(const struct page *page, const char *path, struct diag *reterr)
{
	struct result_file file;
	char *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);
	int err = to ? page_print(page, to) : -ENOMEM;

	if (to && fclose(to) && !err)
		err = -ENOMEM;
	if (err)
		diag_set(reterr, err, "out of memory");
	else
		err = result_file_open(path, RESULT_STREAM, &file, reterr);
	if (!err) {
		int written = fd_write(file.fd, text, len);
		if (written)
			diag_set(reterr, written, "%s: %s", file.path, strerror(-written));
		int closed = result_file_close(&file, !written, written ? NULL : reterr);
		err = written ? written : closed;
	}
	free(text);
	return err;
}
