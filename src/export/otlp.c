/* SPDX-License-Identifier: MIT */
/*
 * otlp: profiles of OpenTelemetry, see proto/otlp.proto. The file is one ProfilesData, which is also what a POST to
 * /v1development/profiles takes. Each event has two profiles: how many samples, and the sum of their periods. Tables
 * are written as they grow; mappings are made up as pprof.c tells.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "config.h"
#include "export/cgroup_labels.h"
#include "export/formats.h"
#include "export/locations.h"
#include "export/otlp.pb-c.h"
#include "export/proto.h"
#include "export/stack_table.h"

enum { OBJECT_SHIFT = 40, THREAD_ATTRIBUTES = 3, CGROUP_ATTRIBUTES = 1 + NR_CGROUP_LABELS };

struct otlp {
	struct exporter exporter;
	struct output_buf output;
	struct stack_table stacks;
	struct locations locations;
	struct sums sums;
	uint32_t *stack_indices;               /* heap; by stack: its index in the file; 0: none yet */
	int32_t (*threads)[THREAD_ATTRIBUTES]; /* heap; by number: attributes */
	int32_t (*cgroups)[CGROUP_ATTRIBUTES]; /* heap; by number: attributes; 0: none */
	uint8_t *object_kinds;                 /* heap; by number */
	struct hash_table cpus;                /* CPU + 1 -> attribute */
	uint32_t stacks_room, threads_room, objects_room, cgroups_room;
	uint32_t nr_stacks, nr_attributes;
	uint32_t written_texts, written_functions, written_locations;
	uint64_t first_ns, last_ns;
};

static struct otlp *otlp_of(struct exporter *exporter)
{
	return (struct otlp *)exporter;
}

static int put(struct otlp *otlp, Otlp__ProfilesDictionary *piece)
{
	Otlp__ProfilesData data = OTLP__PROFILES_DATA__INIT;

	data.dictionary = piece;
	proto_put(&otlp->output.buf, &data.base);
	return output_buf_flush_large(&otlp->output);
}

/* -ENOMEM. */
static int32_t text_of(struct otlp *otlp, const char *text)
{
	uint32_t number = 0;

	return text_table_add(&otlp->locations.texts, text, &number) < 0 ? -ENOMEM : (int32_t)number;
}

/* The index of a new attribute; text NULL: the number. -errno. */
static int32_t add_attribute(struct otlp *otlp, const char *key, const char *text, int64_t number)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__KeyValueAndUnit attribute = OTLP__KEY_VALUE_AND_UNIT__INIT, *list[] = {&attribute};
	Otlp__AnyValue value = OTLP__ANY_VALUE__INIT;
	AUTO_BUF struct buf valid = {0};

	attribute.key_strindex = text_of(otlp, key);
	if (attribute.key_strindex < 0)
		return attribute.key_strindex;
	value.value_case = text ? OTLP__ANY_VALUE__VALUE_STRING_VALUE : OTLP__ANY_VALUE__VALUE_INT_VALUE;
	if (text)
		value.string_value = (char *)(uintptr_t)utf8_of(text, &valid);
	else
		value.int_value = number;
	attribute.value = &value;
	piece.n_attribute_table = 1;
	piece.attribute_table = list;
	int err = put(otlp, &piece);
	return err ? err : (int32_t)++otlp->nr_attributes;
}

/* The empty elements 0. */
static int put_zeroes(struct otlp *otlp)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__Mapping mapping = OTLP__MAPPING__INIT, *mappings[] = {&mapping};
	Otlp__Location location = OTLP__LOCATION__INIT, *locations[] = {&location};
	Otlp__Function function = OTLP__FUNCTION__INIT, *functions[] = {&function};
	Otlp__Link link = OTLP__LINK__INIT, *links[] = {&link};
	Otlp__KeyValueAndUnit attribute = OTLP__KEY_VALUE_AND_UNIT__INIT, *attributes[] = {&attribute};
	Otlp__Stack stack = OTLP__STACK__INIT, *stacks[] = {&stack};
	uint8_t no_trace[16] = {0};

	link.trace_id = (ProtobufCBinaryData){16, no_trace};
	link.span_id = (ProtobufCBinaryData){8, no_trace};
	piece.n_mapping_table = piece.n_location_table = piece.n_function_table = piece.n_link_table = 1;
	piece.n_attribute_table = piece.n_stack_table = 1;
	piece.mapping_table = mappings;
	piece.location_table = locations;
	piece.function_table = functions;
	piece.link_table = links;
	piece.attribute_table = attributes;
	piece.stack_table = stacks;
	return put(otlp, &piece);
}

static int otlp_open(struct exporter *exporter, struct diag *reterr)
{
	struct otlp *otlp = otlp_of(exporter);
	int err = proto_load(reterr);

	if (err)
		return err;
	otlp->output.fd = exporter->fd;
	otlp->first_ns = UINT64_MAX;
	err = locations_init(&otlp->locations);
	if (!err)
		err = put_zeroes(otlp);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}

static int otlp_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct otlp *otlp = otlp_of(exporter);
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__Mapping mapping = OTLP__MAPPING__INIT, *list[] = {&mapping};
	AUTO_BUF struct buf id = {0};
	int32_t build_id = 0;

	if (table_make_room((void **)&otlp->object_kinds, 1, number, &otlp->objects_room))
		return -ENOMEM;
	otlp->object_kinds[number] = object->kind;
	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&id, "%02x", object->build_id[i]);
	mapping.filename_strindex = text_of(otlp, object->path);
	if (mapping.filename_strindex < 0)
		return mapping.filename_strindex;
	if (id.len)
		build_id = add_attribute(otlp, "process.executable.build_id.gnu", buf_text(&id), 0);
	if (build_id < 0)
		return build_id;
	mapping.n_attribute_indices = build_id ? 1 : 0;
	mapping.attribute_indices = &build_id;
	if (object->kind == EXPORT_FILE) {
		mapping.memory_start = (uint64_t)number << OBJECT_SHIFT;
		mapping.memory_limit = mapping.memory_start + (UINT64_C(1) << OBJECT_SHIFT);
	}
	piece.n_mapping_table = 1;
	piece.mapping_table = list;
	return put(otlp, &piece);
}

static int otlp_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	return locations_add_frame(&otlp_of(exporter)->locations, number, frame);
}

static int otlp_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct otlp *otlp = otlp_of(exporter);

	if (table_make_room((void **)&otlp->stack_indices, sizeof(uint32_t), number, &otlp->stacks_room))
		return -ENOMEM;
	otlp->stack_indices[number] = 0;
	return stack_table_add(&otlp->stacks, number, outer, frame);
}

/* Keys: opentelemetry.io/docs/specs/semconv/attributes-registry. */
static int otlp_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct otlp *otlp = otlp_of(exporter);

	if (table_make_room((void **)&otlp->threads, sizeof(*otlp->threads), number, &otlp->threads_room))
		return -ENOMEM;
	int32_t *attributes = otlp->threads[number];
	attributes[0] = add_attribute(otlp, "thread.name", thread->comm, 0);
	attributes[1] = add_attribute(otlp, "process.pid", NULL, (int32_t)thread->pid);
	attributes[2] = add_attribute(otlp, "thread.id", NULL, (int32_t)thread->tid);
	for (unsigned i = 0; i < THREAD_ATTRIBUTES; i++)
		if (attributes[i] < 0)
			return attributes[i];
	return 0;
}

/* container.id, k8s.pod.uid and process.linux.cgroup are of the registry, too; it has no name for a unit. */
static int otlp_cgroup(struct exporter *exporter, uint32_t number, const char *path)
{
	static const char *const keys[NR_CGROUP_LABELS] = {
		[LABEL_UNIT] = "systemd.unit", [LABEL_CONTAINER] = "container.id", [LABEL_POD] = "k8s.pod.uid"};
	struct otlp *otlp = otlp_of(exporter);
	struct cgroup_labels labels;

	cgroup_labels_of(path, &labels);
	if (table_make_room((void **)&otlp->cgroups, sizeof(*otlp->cgroups), number, &otlp->cgroups_room))
		return -ENOMEM;
	int32_t *attributes = otlp->cgroups[number];
	attributes[0] = add_attribute(otlp, "process.linux.cgroup", path, 0);
	for (unsigned i = 0; i < NR_CGROUP_LABELS; i++)
		attributes[1 + i] = *labels.texts[i] ? add_attribute(otlp, keys[i], labels.texts[i], 0) : 0;
	for (unsigned i = 0; i < CGROUP_ATTRIBUTES; i++)
		if (attributes[i] < 0)
			return attributes[i];
	return 0;
}

static int otlp_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct otlp *otlp = otlp_of(exporter);
	const struct sum_key key = {sample->stack, sample->thread, sample->event, sample->cpu, sample->cgroup};

	if (sample->time_ns && sample->time_ns < otlp->first_ns)
		otlp->first_ns = sample->time_ns;
	if (sample->time_ns > otlp->last_ns)
		otlp->last_ns = sample->time_ns;
	return sums_add(&otlp->sums, &key, sample->period);
}

/* The index of a stack in the file. -errno. */
static int32_t stack_index(struct otlp *otlp, uint32_t stack)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__Stack out = OTLP__STACK__INIT, *list[] = {&out};
	uint32_t numbers[LOCATIONS_MAX];
	int32_t indices[LOCATIONS_MAX];

	if (otlp->stack_indices[stack])
		return (int32_t)otlp->stack_indices[stack];
	int nr = locations_of_stack(&otlp->locations, &otlp->stacks, stack, numbers);
	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++)
		indices[i] = (int32_t)numbers[i];
	out.n_location_indices = (size_t)nr;
	out.location_indices = indices;
	piece.n_stack_table = 1;
	piece.stack_table = list;
	int err = put(otlp, &piece);
	otlp->stack_indices[stack] = ++otlp->nr_stacks;
	return err ? err : (int32_t)otlp->nr_stacks;
}

/* The index of the attribute of a CPU; 0: unknown. -errno. */
static int32_t cpu_attribute(struct otlp *otlp, int32_t cpu)
{
	uint64_t key = (uint64_t)cpu + 1;
	int32_t index = cpu < 0 ? 0 : (int32_t)hash_table_find_number(&otlp->cpus, key);

	if (cpu < 0 || index)
		return index;
	index = add_attribute(otlp, "cpu.logical_number", NULL, cpu);
	return index > 0 && hash_table_add_number(&otlp->cpus, key, (uint64_t)index) ? -ENOMEM : index;
}

/* The samples of one event, as messages in one piece of memory. */
struct sample_list {
	Otlp__Sample *samples, **pointers;
	int32_t (*attributes)[THREAD_ATTRIBUTES + 1 + CGROUP_ATTRIBUTES];
	int64_t *values;
	size_t nr;
};

static void sample_list_fini(struct sample_list *list)
{
	free(list->samples);
	free(list->pointers);
	free(list->attributes);
	free(list->values);
}

/* Those of a sample. How many, or -errno. */
static int put_attributes(struct otlp *otlp, const struct sum_key *key, int32_t *attributes)
{
	int nr = THREAD_ATTRIBUTES;
	int32_t cpu = cpu_attribute(otlp, key->cpu);

	memcpy(attributes, otlp->threads[key->thread], sizeof(otlp->threads[0]));
	if (cpu < 0)
		return cpu;
	if (cpu)
		attributes[nr++] = cpu;
	for (unsigned i = 0; key->cgroup && i < CGROUP_ATTRIBUTES; i++)
		if (otlp->cgroups[key->cgroup][i])
			attributes[nr++] = otlp->cgroups[key->cgroup][i];
	return nr;
}

static int make_list(struct otlp *otlp, uint32_t event, struct sample_list *list)
{
	size_t room = (size_t)otlp->sums.nr + 1;

	list->samples = calloc(room, sizeof(*list->samples));
	list->pointers = calloc(room, sizeof(*list->pointers));
	list->attributes = calloc(room, sizeof(*list->attributes));
	list->values = calloc(room, sizeof(*list->values));
	if (!list->samples || !list->pointers || !list->attributes || !list->values)
		return -ENOMEM;
	for (uint32_t i = 0; i < otlp->sums.nr; i++) {
		const struct sum *sum = &otlp->sums.sums[i];
		Otlp__Sample *sample = &list->samples[list->nr];
		if (sum->key.event != event)
			continue;
		*sample = (Otlp__Sample)OTLP__SAMPLE__INIT;
		int32_t *attributes = list->attributes[list->nr];
		int nr_attributes = put_attributes(otlp, &sum->key, attributes);
		if (nr_attributes < 0)
			return nr_attributes;
		sample->stack_index = stack_index(otlp, sum->key.stack);
		if (sample->stack_index < 0)
			return sample->stack_index;
		sample->n_attribute_indices = (size_t)nr_attributes;
		sample->attribute_indices = attributes;
		sample->n_values = 1;
		sample->values = &list->values[list->nr];
		list->pointers[list->nr++] = sample;
	}
	return 0;
}

static void set_values(const struct otlp *otlp, uint32_t event, struct sample_list *list, bool count)
{
	size_t at = 0;

	for (uint32_t i = 0; i < otlp->sums.nr; i++)
		if (otlp->sums.sums[i].key.event == event)
			list->values[at++] =
				(int64_t)(count ? otlp->sums.sums[i].nr_samples : otlp->sums.sums[i].period);
}

static int put_profile(struct otlp *otlp, Otlp__Profile *profile)
{
	const struct export_profile *about = &otlp->exporter.profile;
	Otlp__ProfilesData data = OTLP__PROFILES_DATA__INIT;
	Otlp__ResourceProfiles of_resource = OTLP__RESOURCE_PROFILES__INIT, *resources[] = {&of_resource};
	Otlp__ScopeProfiles of_scope = OTLP__SCOPE_PROFILES__INIT, *scopes[] = {&of_scope};
	Otlp__InstrumentationScope scope = OTLP__INSTRUMENTATION_SCOPE__INIT;
	Otlp__Resource resource = OTLP__RESOURCE__INIT;
	Otlp__KeyValue host = OTLP__KEY_VALUE__INIT, *attributes[] = {&host};
	Otlp__AnyValue host_name = OTLP__ANY_VALUE__INIT;
	AUTO_BUF struct buf valid = {0};
	char key[] = "host.name", name[] = "millrace", version[] = MILLRACE_VERSION;

	host_name.value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	host_name.string_value = (char *)(uintptr_t)utf8_of(about->hostname ? about->hostname : "", &valid);
	host.key = key;
	host.value = &host_name;
	resource.n_attributes = about->hostname ? 1 : 0;
	resource.attributes = attributes;
	scope.name = name;
	scope.version = version;
	of_scope.scope = &scope;
	of_scope.n_profiles = 1;
	of_scope.profiles = &profile;
	of_resource.resource = &resource;
	of_resource.n_scope_profiles = 1;
	of_resource.scope_profiles = scopes;
	data.n_resource_profiles = 1;
	data.resource_profiles = resources;
	proto_put(&otlp->output.buf, &data.base);
	return output_buf_flush_large(&otlp->output);
}

static int put_event(struct otlp *otlp, uint32_t number)
{
	const struct export_profile *about = &otlp->exporter.profile;
	const struct export_event *event = &about->events[number];
	AUTO_BUF struct buf count_name = {0};
	struct sample_list list = {0};
	int err = make_list(otlp, number, &list);

	export_count_name(about, number, &count_name);
	if (!err)
		err = buf_status(&count_name);
	for (unsigned count = 0; count < 2 && !err && list.nr; count++) {
		Otlp__Profile profile = OTLP__PROFILE__INIT;
		Otlp__ValueType type = OTLP__VALUE_TYPE__INIT;
		set_values(otlp, number, &list, count);
		type.type_strindex = text_of(otlp, count ? buf_text(&count_name) : export_value_name(about, number));
		type.unit_strindex = text_of(otlp, count || event->unit == EXPORT_COUNT ? "count" : "nanoseconds");
		if (type.type_strindex < 0 || type.unit_strindex < 0) {
			err = -ENOMEM;
			break;
		}
		profile.sample_type = &type;
		profile.n_samples = list.nr;
		profile.samples = list.pointers;
		profile.duration_nano = otlp->first_ns < otlp->last_ns ? otlp->last_ns - otlp->first_ns : 0;
		if (about->wall_offset_ns && otlp->first_ns != UINT64_MAX)
			profile.time_unix_nano = otlp->first_ns + (uint64_t)about->wall_offset_ns;
		err = put_profile(otlp, &profile);
	}
	sample_list_fini(&list);
	return err;
}

static int put_location(struct otlp *otlp, uint32_t number)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__Location location = OTLP__LOCATION__INIT, *list[] = {&location};
	Otlp__Line lines[LOCATION_FRAMES_MAX], *line_list[LOCATION_FRAMES_MAX];
	const struct place *places[LOCATION_FRAMES_MAX];
	unsigned nr = locations_frames(&otlp->locations, number, places);
	uint32_t object = places[0]->object;

	for (unsigned i = 0; i < nr; i++) {
		lines[i] = (Otlp__Line)OTLP__LINE__INIT;
		lines[i].function_index = (int32_t)places[i]->function;
		lines[i].line = places[i]->line;
		line_list[i] = &lines[i];
	}
	location.mapping_index = (int32_t)object;
	location.address = places[0]->address;
	if (object && otlp->object_kinds[object] == EXPORT_FILE)
		location.address += (uint64_t)object << OBJECT_SHIFT;
	location.n_lines = places[0]->function ? nr : 0;
	location.lines = line_list;
	piece.n_location_table = 1;
	piece.location_table = list;
	return put(otlp, &piece);
}

static int put_function(struct otlp *otlp, uint32_t number)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	Otlp__Function function = OTLP__FUNCTION__INIT, *list[] = {&function};

	function.name_strindex = function.system_name_strindex = (int32_t)otlp->locations.functions[number].name;
	function.filename_strindex = (int32_t)otlp->locations.functions[number].file;
	piece.n_function_table = 1;
	piece.function_table = list;
	return put(otlp, &piece);
}

static int put_text(struct otlp *otlp, uint32_t number)
{
	Otlp__ProfilesDictionary piece = OTLP__PROFILES_DICTIONARY__INIT;
	AUTO_BUF struct buf valid = {0};
	char *list[] = {(char *)(uintptr_t)utf8_of(otlp->locations.texts.texts[number], &valid)};

	piece.n_string_table = 1;
	piece.string_table = list;
	return put(otlp, &piece);
}

static int otlp_close(struct exporter *exporter, struct diag *reterr)
{
	struct otlp *otlp = otlp_of(exporter);
	int err = 0;

	(void)reterr;
	for (uint32_t i = 0; i < exporter->profile.nr_events && !err; i++)
		err = put_event(otlp, i);
	while (!err && otlp->written_locations < otlp->locations.nr_locations)
		err = put_location(otlp, ++otlp->written_locations);
	while (!err && otlp->written_functions < otlp->locations.nr_functions)
		err = put_function(otlp, ++otlp->written_functions);
	while (!err && otlp->written_texts < otlp->locations.texts.nr)
		err = put_text(otlp, otlp->written_texts++);
	return err ? err : output_buf_flush(&otlp->output);
}

static void otlp_free(struct exporter *exporter)
{
	struct otlp *otlp = otlp_of(exporter);

	output_buf_fini(&otlp->output);
	stack_table_fini(&otlp->stacks);
	locations_fini(&otlp->locations);
	sums_fini(&otlp->sums);
	hash_table_fini(&otlp->cpus);
	free(otlp->stack_indices);
	free(otlp->threads);
	free(otlp->cgroups);
	free(otlp->object_kinds);
}

const struct export_format export_otlp = {
	.name = "otlp",
	.suffix = ".otlp",
	.about = "OpenTelemetry profiles, v1development of 1.11.0",
	.by_address = true,
	.state_bytes = sizeof(struct otlp),
	.open = otlp_open,
	.object = otlp_object,
	.frame = otlp_frame,
	.stack = otlp_stack,
	.thread = otlp_thread,
	.cgroup = otlp_cgroup,
	.sample = otlp_sample,
	.close = otlp_close,
	.free = otlp_free,
};
