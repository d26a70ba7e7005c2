/* SPDX-License-Identifier: MIT */
/*
 * pprof: what `go tool pprof`, Perfetto, speedscope and the continuous profilers take: gzip of the message of
 * proto/pprof.proto. Samples of equal stack, thread and CPU are one; when there are many of them they are written, and
 * summing begins anew: readers add up equal ones.
 *
 * Each object has an address range of its own, 2^40 long, in which its file lies from the start on: so addresses are
 * those of one mapping for all processes, and pprof still finds the place in the file (addr - start + offset). Kernel
 * and generated code keep their addresses in memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "export/cgroup_labels.h"
#include "export/formats.h"
#include "export/locations.h"
#include "export/pprof.pb-c.h"
#include "export/proto.h"
#include "export/stack_table.h"

enum { MOST_SUMS = 1 << 19, OBJECT_SHIFT = 40, LABELS = 5 };

struct thread {
	uint32_t pid, tid, comm; /* comm: a text */
};

/* Texts; 0: none. */
struct cgroup {
	uint32_t path, labels[NR_CGROUP_LABELS];
};

struct object {
	uint32_t path, build_id; /* texts */
	enum export_object_kind kind;
	uint64_t nr_samples; /* with functions of it; those that it calls back from another object more than once */
};

struct pprof {
	struct exporter exporter;
	struct output_buf output;
	struct gzip gzip;
	struct stack_table stacks;
	struct locations locations;
	struct sums sums;
	struct thread *threads; /* heap; by number */
	struct object *objects; /* heap; by number */
	struct cgroup *cgroups; /* heap; by number */
	uint32_t threads_room, objects_room, cgroups_room, nr_objects;
	uint32_t label_keys[LABELS + NR_CGROUP_LABELS];               /* texts */
	uint32_t written_texts, written_functions, written_locations; /* how many */
	uint64_t first_ns, last_ns;
	bool has_lines;
};

static const char *const label_names[LABELS] = {"comm", "pid", "thread", "cpu", "cgroup"};

static struct pprof *pprof_of(struct exporter *exporter)
{
	return (struct pprof *)exporter;
}

static int64_t text_of(struct pprof *pprof, const char *text)
{
	uint32_t number = 0;

	return text_table_add(&pprof->locations.texts, text, &number) < 0 ? -ENOMEM : (int64_t)number;
}

static void put(struct pprof *pprof, const Pprof__Profile *piece)
{
	proto_put(&pprof->gzip.plain, &piece->base);
}

/* The names of an event's two sample types. */
static int event_types(struct pprof *pprof, size_t index, Pprof__ValueType ret[2])
{
	const struct export_event *event = &pprof->exporter.profile.events[index];
	const char *name = export_value_name(&pprof->exporter.profile, index);
	AUTO_BUF struct buf count = {0};

	export_count_name(&pprof->exporter.profile, index, &count);
	if (count.failed)
		return -ENOMEM;
	ret[0] = ret[1] = (Pprof__ValueType)PPROF__VALUE_TYPE__INIT;
	ret[0].type = text_of(pprof, buf_text(&count));
	ret[0].unit = text_of(pprof, "count");
	ret[1].type = text_of(pprof, name);
	ret[1].unit = text_of(pprof, event->unit == EXPORT_COUNT ? "count" : "nanoseconds");
	return ret[0].type < 0 || ret[0].unit < 0 || ret[1].type < 0 || ret[1].unit < 0 ? -ENOMEM : 0;
}

static int put_types(struct pprof *pprof)
{
	const struct export_profile *about = &pprof->exporter.profile;

	for (size_t i = 0; i < about->nr_events; i++) {
		Pprof__Profile piece = PPROF__PROFILE__INIT;
		Pprof__ValueType types[2], *list[2] = {&types[0], &types[1]};
		if (event_types(pprof, i, types))
			return -ENOMEM;
		piece.n_sample_type = 2;
		piece.sample_type = list;
		if (!i)
			piece.default_sample_type = types[1].type;
		if (!i && about->events[0].unit == EXPORT_CPU_NS) {
			piece.period_type = &types[1];
			const struct export_event *event = &about->events[0];
			uint64_t period = event->frequency ? 1000000000 / event->frequency : event->period;
			piece.period = period > INT64_MAX ? INT64_MAX : (int64_t)period;
		}
		put(pprof, &piece);
	}
	return 0;
}

static int pprof_open(struct exporter *exporter, struct diag *reterr)
{
	struct pprof *pprof = pprof_of(exporter);
	int err = proto_load(reterr);

	if (err)
		return err;
	pprof->output.fd = exporter->fd;
	pprof->first_ns = UINT64_MAX;
	err = gzip_open(&pprof->gzip);
	if (!err)
		err = locations_init(&pprof->locations);
	for (unsigned i = 0; i < LABELS && !err; i++)
		err = text_table_add(&pprof->locations.texts, label_names[i], &pprof->label_keys[i]) < 0 ? -ENOMEM : 0;
	for (unsigned i = 0; i < NR_CGROUP_LABELS && !err; i++)
		err = text_table_add(&pprof->locations.texts, cgroup_label_names[i], &pprof->label_keys[LABELS + i]) < 0
			      ? -ENOMEM
			      : 0;
	if (!err)
		err = put_types(pprof);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

static int pprof_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct pprof *pprof = pprof_of(exporter);
	struct object out = {.kind = object->kind};
	AUTO_BUF struct buf id = {0};

	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&id, "%02x", object->build_id[i]);
	if (table_make_room((void **)&pprof->objects, sizeof(out), number, &pprof->objects_room) ||
	    text_table_add(&pprof->locations.texts, object->path, &out.path) < 0 ||
	    text_table_add(&pprof->locations.texts, buf_text(&id), &out.build_id) < 0)
		return -ENOMEM;
	pprof->objects[number] = out;
	pprof->nr_objects = number;
	return 0;
}

static int pprof_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	pprof_of(exporter)->has_lines |= frame->line != 0;
	return locations_add_frame(&pprof_of(exporter)->locations, number, frame);
}

static int pprof_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	return stack_table_add(&pprof_of(exporter)->stacks, number, outer, frame);
}

static int pprof_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct pprof *pprof = pprof_of(exporter);
	struct thread out = {.pid = thread->pid, .tid = thread->tid};

	if (table_make_room((void **)&pprof->threads, sizeof(out), number, &pprof->threads_room) ||
	    text_table_add(&pprof->locations.texts, thread->comm, &out.comm) < 0)
		return -ENOMEM;
	pprof->threads[number] = out;
	return 0;
}

static int pprof_cgroup(struct exporter *exporter, uint32_t number, const char *path)
{
	struct pprof *pprof = pprof_of(exporter);
	struct text_table *texts = &pprof->locations.texts;
	struct cgroup out = {0};
	struct cgroup_labels labels;

	cgroup_labels_of(path, &labels);
	if (table_make_room((void **)&pprof->cgroups, sizeof(out), number, &pprof->cgroups_room) ||
	    text_table_add(texts, path, &out.path) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < NR_CGROUP_LABELS; i++)
		if (*labels.texts[i] && text_table_add(texts, labels.texts[i], &out.labels[i]) < 0)
			return -ENOMEM;
	pprof->cgroups[number] = out;
	return 0;
}

static void count_objects(struct pprof *pprof, const uint64_t locations[], size_t nr, uint64_t nr_samples)
{
	const struct place *places[LOCATION_FRAMES_MAX];
	uint32_t last = 0;

	for (size_t i = 0; i < nr; i++) {
		locations_frames(&pprof->locations, (uint32_t)locations[i], places);
		if (places[0]->object && places[0]->object != last)
			pprof->objects[places[0]->object].nr_samples += nr_samples;
		last = places[0]->object;
	}
}

/* As a number that a label may have: -1 is what there is for an unknown pid. */
static void set_label(Pprof__Label *label, uint32_t key, int32_t number)
{
	*label = (Pprof__Label)PPROF__LABEL__INIT;
	label->key = key;
	label->num = number;
}

static void add_label(Pprof__Label labels[], size_t *nr, uint32_t key, uint32_t text)
{
	if (!text)
		return;
	set_label(&labels[*nr], key, 0);
	labels[(*nr)++].str = text;
}

static int put_sum(struct pprof *pprof, const struct sum *sum, int64_t *values)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples[] = {&sample};
	Pprof__Label labels[LABELS + NR_CGROUP_LABELS], *label_list[LABELS + NR_CGROUP_LABELS];
	uint32_t numbers[LOCATIONS_MAX];
	uint64_t locations[LOCATIONS_MAX];
	char cpu[16];
	const struct thread *thread = &pprof->threads[sum->key.thread];
	int nr = locations_of_stack(&pprof->locations, &pprof->stacks, sum->key.stack, numbers);

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++)
		locations[i] = numbers[i];
	count_objects(pprof, locations, (size_t)nr, sum->nr_samples);
	set_label(&labels[0], pprof->label_keys[0], 0);
	labels[0].str = thread->comm;
	set_label(&labels[1], pprof->label_keys[1], (int32_t)thread->pid);
	set_label(&labels[2], pprof->label_keys[2], (int32_t)thread->tid);
	size_t nr_labels = 3;
	snprintf(cpu, sizeof(cpu), "%d", sum->key.cpu);
	int64_t cpu_text = sum->key.cpu < 0 ? 0 : text_of(pprof, cpu); /* readers take the number 0 for none */
	if (cpu_text < 0)
		return -ENOMEM;
	add_label(labels, &nr_labels, pprof->label_keys[3], (uint32_t)cpu_text);
	if (sum->key.cgroup) {
		const struct cgroup *cgroup = &pprof->cgroups[sum->key.cgroup];
		add_label(labels, &nr_labels, pprof->label_keys[4], cgroup->path);
		for (unsigned i = 0; i < NR_CGROUP_LABELS; i++)
			add_label(labels, &nr_labels, pprof->label_keys[LABELS + i], cgroup->labels[i]);
	}
	for (unsigned i = 0; i < nr_labels; i++)
		label_list[i] = &labels[i];
	size_t nr_values = 2 * pprof->exporter.profile.nr_events;
	memset(values, 0, nr_values * sizeof(*values));
	values[2 * sum->key.event] = (int64_t)sum->nr_samples;
	values[2 * sum->key.event + 1] = (int64_t)sum->period;
	sample.n_location_id = (size_t)nr;
	sample.location_id = locations;
	sample.n_value = nr_values;
	sample.value = values;
	sample.n_label = nr_labels;
	sample.label = label_list;
	piece.n_sample = 1;
	piece.sample = samples;
	put(pprof, &piece);
	return 0;
}

static uint64_t mapping_start(const struct pprof *pprof, uint32_t object)
{
	return pprof->objects[object].kind == EXPORT_FILE ? (uint64_t)object << OBJECT_SHIFT : 0;
}

static void put_location(struct pprof *pprof, uint32_t number)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Location location = PPROF__LOCATION__INIT, *locations[] = {&location};
	Pprof__Line lines[LOCATION_FRAMES_MAX], *line_list[LOCATION_FRAMES_MAX];
	const struct place *places[LOCATION_FRAMES_MAX];
	unsigned nr = locations_frames(&pprof->locations, number, places);

	for (unsigned i = 0; i < nr; i++) {
		lines[i] = (Pprof__Line)PPROF__LINE__INIT;
		lines[i].function_id = places[i]->function;
		lines[i].line = places[i]->line;
		line_list[i] = &lines[i];
	}
	location.id = number;
	location.mapping_id = places[0]->object;
	location.address = places[0]->address + (places[0]->object ? mapping_start(pprof, places[0]->object) : 0);
	location.n_line = places[0]->function ? nr : 0;
	location.line = line_list;
	piece.n_location = 1;
	piece.location = locations;
	put(pprof, &piece);
}

static void put_function(struct pprof *pprof, uint32_t number)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions[] = {&function};

	function.id = number;
	function.name = function.system_name = pprof->locations.functions[number].name;
	function.filename = pprof->locations.functions[number].file;
	piece.n_function = 1;
	piece.function = functions;
	put(pprof, &piece);
}

static void put_texts(struct pprof *pprof)
{
	for (; pprof->written_texts < pprof->locations.texts.nr; pprof->written_texts++) {
		Pprof__Profile piece = PPROF__PROFILE__INIT;
		AUTO_BUF struct buf valid = {0};
		const char *text = utf8_of(pprof->locations.texts.texts[pprof->written_texts], &valid);
		char *list[] = {(char *)(uintptr_t)text};
		piece.n_string_table = 1;
		piece.string_table = list;
		put(pprof, &piece);
	}
}

/* All sums, and before them what they refer to. */
static int put_sums(struct pprof *pprof)
{
	int64_t *values = calloc(2 * pprof->exporter.profile.nr_events + 1, sizeof(*values));
	int err = values ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < pprof->sums.nr && !err; i++) {
		err = put_sum(pprof, &pprof->sums.sums[i], values);
		if (!err)
			err = gzip_relieve(&pprof->gzip, &pprof->output, false);
	}
	free(values);
	sums_clear(&pprof->sums);
	while (!err && pprof->written_locations < pprof->locations.nr_locations) {
		put_location(pprof, ++pprof->written_locations);
		err = gzip_relieve(&pprof->gzip, &pprof->output, false);
	}
	while (!err && pprof->written_functions < pprof->locations.nr_functions) {
		put_function(pprof, ++pprof->written_functions);
		err = gzip_relieve(&pprof->gzip, &pprof->output, false);
	}
	return err;
}

static int pprof_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct pprof *pprof = pprof_of(exporter);
	const struct sum_key key = {sample->stack, sample->thread, sample->event, sample->cpu, sample->cgroup};

	if (sample->time_ns && sample->time_ns < pprof->first_ns)
		pprof->first_ns = sample->time_ns;
	if (sample->time_ns > pprof->last_ns)
		pprof->last_ns = sample->time_ns;
	int err = sums_add(&pprof->sums, &key, sample->period);
	return err || pprof->sums.nr < MOST_SUMS ? err : put_sums(pprof);
}

static void put_mapping(struct pprof *pprof, uint32_t number)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings[] = {&mapping};
	const struct object *object = &pprof->objects[number];

	mapping.id = number;
	mapping.memory_start = mapping_start(pprof, number);
	mapping.memory_limit = mapping.memory_start ? mapping.memory_start + (UINT64_C(1) << OBJECT_SHIFT) : 0;
	mapping.filename = object->path;
	mapping.build_id = object->build_id;
	mapping.has_functions = true;
	mapping.has_filenames = mapping.has_line_numbers = pprof->has_lines;
	mapping.has_inline_frames = true;
	piece.n_mapping = 1;
	piece.mapping = mappings;
	put(pprof, &piece);
}

static int put_about(struct pprof *pprof)
{
	const struct export_profile *about = &pprof->exporter.profile;
	const char *const comments[] = {about->command, about->hostname, about->os_release, about->cpu};
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	int64_t texts[4];

	piece.comment = texts;
	for (unsigned i = 0; i < 4; i++) {
		if (!comments[i])
			continue;
		texts[piece.n_comment] = text_of(pprof, comments[i]);
		if (texts[piece.n_comment++] < 0)
			return -ENOMEM;
	}
	if (pprof->first_ns < pprof->last_ns)
		piece.duration_nanos = (int64_t)(pprof->last_ns - pprof->first_ns);
	if (about->wall_offset_ns && pprof->first_ns != UINT64_MAX)
		piece.time_nanos = (int64_t)pprof->first_ns + about->wall_offset_ns;
	put(pprof, &piece);
	return 0;
}

static bool is_library(const char *path)
{
	const char *suffix = strstr(path, ".so");

	return suffix && strchr("._ ", suffix[strlen(".so")]); /* or it ends there */
}

/* The first mapping is taken for the program (google/pprof, proto/profile.proto), and its name printed. 0: none. */
static uint32_t main_object(const struct pprof *pprof)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i <= pprof->nr_objects; i++) {
		const struct object *object = &pprof->objects[i];
		const char *path = pprof->locations.texts.texts[object->path];
		const char *name = strrchr(path, '/');
		if (object->kind == EXPORT_FILE && name && !is_library(name) &&
		    (!found || object->nr_samples > pprof->objects[found].nr_samples))
			found = i;
	}
	return found;
}

static void put_mappings(struct pprof *pprof)
{
	const uint32_t first = main_object(pprof);

	if (first)
		put_mapping(pprof, first);
	for (uint32_t i = 1; i <= pprof->nr_objects; i++)
		if (i != first)
			put_mapping(pprof, i);
}

static int pprof_close(struct exporter *exporter, struct diag *reterr)
{
	struct pprof *pprof = pprof_of(exporter);
	int err = put_sums(pprof);

	(void)reterr;
	put_mappings(pprof);
	if (!err)
		err = put_about(pprof);
	put_texts(pprof);
	return err ? err : gzip_relieve(&pprof->gzip, &pprof->output, true);
}

static void pprof_free(struct exporter *exporter)
{
	struct pprof *pprof = pprof_of(exporter);

	gzip_close(&pprof->gzip);
	output_buf_fini(&pprof->output);
	stack_table_fini(&pprof->stacks);
	locations_fini(&pprof->locations);
	sums_fini(&pprof->sums);
	free(pprof->threads);
	free(pprof->cgroups);
	free(pprof->objects);
}

const struct export_format export_pprof = {
	.name = "pprof",
	.suffix = ".pb.gz",
	.about = "for go tool pprof, Perfetto, Pyroscope and most others",
	.by_address = true,
	.state_bytes = sizeof(struct pprof),
	.open = pprof_open,
	.object = pprof_object,
	.frame = pprof_frame,
	.stack = pprof_stack,
	.thread = pprof_thread,
	.cgroup = pprof_cgroup,
	.sample = pprof_sample,
	.close = pprof_close,
	.free = pprof_free,
};
