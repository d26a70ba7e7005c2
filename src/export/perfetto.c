/* SPDX-License-Identifier: MIT */
/*
 * perfetto: a trace for ui.perfetto.dev with each sample at its time. Names, frames and stacks are written before the
 * first sample that needs them; each event is a packet sequence with a copy of them, for they belong to a sequence.
 * Not its JSON: that has no stacks of samples that lie in several threads at once, and is ten times as long.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "export/formats.h"
#include "export/output_buf.h"
#include "export/perfetto.pb-c.h"
#include "export/proto.h"
#include "export/stack_table.h"

enum { NEEDS_INTERNED = 2, BEGINS_INTERNED = 1 };

struct thread {
	uint32_t pid, tid;
};

struct perfetto {
	struct exporter exporter;
	struct output_buf output;
	struct stack_table stacks;
	struct text_table texts; /* iid: number + 1 */
	uint8_t *is_interned;    /* heap; by stack: 1 */
	struct thread *threads;  /* heap; by number */
	uint32_t threads_room, stacks_room;
};

static struct perfetto *perfetto_of(struct exporter *exporter)
{
	return (struct perfetto *)exporter;
}

static int put(struct perfetto *perfetto, Perfetto__TracePacket *packet)
{
	Perfetto__Trace trace = PERFETTO__TRACE__INIT;

	trace.n_packet = 1;
	trace.packet = &packet;
	proto_put(&perfetto->output.buf, &trace.base);
	return output_buf_flush_large(&perfetto->output);
}

/* To the sequence of each event. */
static int put_interned(struct perfetto *perfetto, Perfetto__InternedData *data)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	int err = 0;

	packet.has_trusted_packet_sequence_id = packet.has_sequence_flags = true;
	packet.sequence_flags = NEEDS_INTERNED;
	packet.interned_data = data;
	for (size_t i = 0; i < perfetto->exporter.profile.nr_events && !err; i++) {
		packet.trusted_packet_sequence_id = (uint32_t)i + 1;
		err = put(perfetto, &packet);
	}
	return err;
}

/* Which of the tables of strings. */
enum texts { FUNCTION_NAMES, BUILD_IDS, PATHS, SOURCES };

/* The iid of a string, written when it is new; 0: there is none. */
static int text_of(struct perfetto *perfetto, enum texts which, const char *text, uint64_t *ret)
{
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__InternedString string = PERFETTO__INTERNED_STRING__INIT, *list[] = {&string};
	AUTO_BUF struct buf key = {0};
	uint32_t number;

	*ret = 0;
	if (!text || !*text)
		return 0;
	buf_printf(&key, "%c%s", 'a' + (char)which, text);
	int added = text_table_add(&perfetto->texts, buf_text(&key), &number);
	if (added < 0)
		return added;
	*ret = number + 1;
	if (!added)
		return 0;
	string.has_iid = string.has_str = true;
	string.iid = *ret;
	string.str = (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
	switch (which) {
	case FUNCTION_NAMES: data.n_function_names = 1, data.function_names = list; break;
	case BUILD_IDS: data.n_build_ids = 1, data.build_ids = list; break;
	case PATHS: data.n_mapping_paths = 1, data.mapping_paths = list; break;
	case SOURCES: data.n_source_paths = 1, data.source_paths = list; break;
	}
	return put_interned(perfetto, &data);
}

static int perfetto_open(struct exporter *exporter, struct diag *reterr)
{
	struct perfetto *perfetto = perfetto_of(exporter);
	int err = proto_load(reterr);

	if (err)
		return err;
	perfetto->output.fd = exporter->fd;
	for (size_t i = 0; i < exporter->profile.nr_events && !err; i++) {
		const struct export_event *event = &exporter->profile.events[i];
		Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
		Perfetto__TracePacketDefaults defaults = PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
		Perfetto__PerfSampleDefaults of_samples = PERFETTO__PERF_SAMPLE_DEFAULTS__INIT;
		Perfetto__Timebase timebase = PERFETTO__TIMEBASE__INIT;
		AUTO_BUF struct buf valid = {0};

		timebase.name = (char *)(uintptr_t)utf8_of(event->name, &valid);
		timebase.has_frequency = event->frequency;
		timebase.frequency = event->frequency;
		timebase.has_period = event->period;
		timebase.period = event->period;
		of_samples.timebase = &timebase;
		defaults.perf_sample_defaults = &of_samples;
		packet.trace_packet_defaults = &defaults;
		packet.has_trusted_packet_sequence_id = packet.has_sequence_flags = true;
		packet.trusted_packet_sequence_id = (uint32_t)i + 1;
		packet.sequence_flags = BEGINS_INTERNED;
		err = put(perfetto, &packet);
	}
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}

static int perfetto_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct perfetto *perfetto = perfetto_of(exporter);
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__Mapping mapping = PERFETTO__MAPPING__INIT, *list[] = {&mapping};
	AUTO_BUF struct buf id = {0};
	uint64_t path;

	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&id, "%02x", object->build_id[i]);
	int err = text_of(perfetto, BUILD_IDS, buf_text(&id), &mapping.build_id);
	if (!err)
		err = text_of(perfetto, PATHS, object->path, &path);
	if (err)
		return err;
	mapping.has_iid = true;
	mapping.iid = number;
	mapping.has_build_id = mapping.build_id;
	mapping.n_path_string_ids = path ? 1 : 0;
	mapping.path_string_ids = &path;
	data.n_mappings = 1;
	data.mappings = list;
	return put_interned(perfetto, &data);
}

static int perfetto_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct perfetto *perfetto = perfetto_of(exporter);
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__Frame out = PERFETTO__FRAME__INIT, *list[] = {&out};
	int err = text_of(perfetto, FUNCTION_NAMES, frame->function, &out.function_name_id);

	if (!err)
		err = text_of(perfetto, SOURCES, frame->file, &out.source_path_iid);
	if (err)
		return err;
	out.has_iid = true;
	out.iid = number;
	out.has_function_name_id = out.function_name_id;
	out.has_source_path_iid = out.source_path_iid;
	out.has_line_number = frame->line;
	out.line_number = frame->line;
	out.has_mapping_id = out.has_rel_pc = frame->object;
	out.mapping_id = frame->object;
	out.rel_pc = frame->address;
	data.n_frames = 1;
	data.frames = list;
	return put_interned(perfetto, &data);
}

static int perfetto_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct perfetto *perfetto = perfetto_of(exporter);

	if (table_make_room((void **)&perfetto->is_interned, 1, number, &perfetto->stacks_room))
		return -ENOMEM;
	perfetto->is_interned[number] = 0;
	return stack_table_add(&perfetto->stacks, number, outer, frame);
}

static int perfetto_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct perfetto *perfetto = perfetto_of(exporter);
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__ProcessTree tree = PERFETTO__PROCESS_TREE__INIT;
	Perfetto__Process process = PERFETTO__PROCESS__INIT, *processes[] = {&process};
	Perfetto__Thread out = PERFETTO__THREAD__INIT, *threads[] = {&out};
	AUTO_BUF struct buf valid = {0};
	char *name[] = {(char *)(uintptr_t)utf8_of(thread->comm, &valid)};

	if (table_make_room((void **)&perfetto->threads, sizeof(*perfetto->threads), number, &perfetto->threads_room))
		return -ENOMEM;
	perfetto->threads[number] = (struct thread){thread->pid, thread->tid};
	process.has_pid = true;
	process.pid = (int32_t)thread->pid;
	process.n_cmdline = 1;
	process.cmdline = name;
	out.has_tid = out.has_tgid = true;
	out.tid = (int32_t)thread->tid;
	out.tgid = (int32_t)thread->pid;
	out.name = name[0];
	tree.n_processes = thread->pid == thread->tid ? 1 : 0;
	tree.processes = processes;
	tree.n_threads = 1;
	tree.threads = threads;
	packet.process_tree = &tree;
	packet.has_trusted_packet_sequence_id = true;
	packet.trusted_packet_sequence_id = 1;
	return put(perfetto, &packet);
}

/* Not every part of a stack is the stack of a sample: those are written that are. */
static int intern_stack(struct perfetto *perfetto, uint32_t stack)
{
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__Callstack callstack = PERFETTO__CALLSTACK__INIT, *list[] = {&callstack};
	uint64_t frames[EXPORT_MOST_FRAMES];
	unsigned nr = 0;

	for (uint32_t at = stack; at && nr < EXPORT_MOST_FRAMES; at = perfetto->stacks.links[at].outer)
		frames[EXPORT_MOST_FRAMES - ++nr] = perfetto->stacks.links[at].frame;
	perfetto->is_interned[stack] = 1;
	callstack.has_iid = true;
	callstack.iid = stack;
	callstack.n_frame_ids = nr;
	callstack.frame_ids = frames + EXPORT_MOST_FRAMES - nr;
	data.n_callstacks = 1;
	data.callstacks = list;
	return put_interned(perfetto, &data);
}

static int perfetto_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct perfetto *perfetto = perfetto_of(exporter);
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__PerfSample out = PERFETTO__PERF_SAMPLE__INIT;
	int err = perfetto->is_interned[sample->stack] ? 0 : intern_stack(perfetto, sample->stack);

	if (err)
		return err;
	out.has_cpu = sample->cpu >= 0;
	out.cpu = out.has_cpu ? (uint32_t)sample->cpu : 0;
	out.has_pid = out.has_tid = out.has_callstack_iid = true;
	out.pid = perfetto->threads[sample->thread].pid;
	out.tid = perfetto->threads[sample->thread].tid;
	out.callstack_iid = sample->stack;
	packet.has_timestamp = packet.has_trusted_packet_sequence_id = packet.has_sequence_flags = true;
	packet.timestamp = sample->time_ns;
	packet.trusted_packet_sequence_id = sample->event + 1;
	packet.sequence_flags = NEEDS_INTERNED;
	packet.perf_sample = &out;
	return put(perfetto, &packet);
}

static int perfetto_marker(struct exporter *exporter, const struct export_marker *marker)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__PerfSample lost = PERFETTO__PERF_SAMPLE__INIT;

	if (marker->kind != EXPORT_LOST)
		return 0;
	lost.has_cpu = marker->cpu >= 0;
	lost.cpu = lost.has_cpu ? (uint32_t)marker->cpu : 0;
	lost.has_kernel_records_lost = true;
	lost.kernel_records_lost = marker->count;
	packet.has_timestamp = packet.has_trusted_packet_sequence_id = true;
	packet.timestamp = marker->from_ns;
	packet.trusted_packet_sequence_id = 1;
	packet.perf_sample = &lost;
	return put(perfetto_of(exporter), &packet);
}

static int perfetto_close(struct exporter *exporter, struct diag *reterr)
{
	(void)reterr;
	return output_buf_flush(&perfetto_of(exporter)->output);
}

static void perfetto_free(struct exporter *exporter)
{
	struct perfetto *perfetto = perfetto_of(exporter);

	output_buf_fini(&perfetto->output);
	stack_table_fini(&perfetto->stacks);
	text_table_fini(&perfetto->texts);
	free(perfetto->is_interned);
	free(perfetto->threads);
}

const struct export_format export_perfetto = {
	.name = "perfetto",
	.suffix = ".pftrace",
	.about = "a trace for ui.perfetto.dev: each sample at its time",
	.by_address = true,
	.needs_times = true,
	.state_bytes = sizeof(struct perfetto),
	.open = perfetto_open,
	.object = perfetto_object,
	.frame = perfetto_frame,
	.stack = perfetto_stack,
	.thread = perfetto_thread,
	.sample = perfetto_sample,
	.marker = perfetto_marker,
	.close = perfetto_close,
	.free = perfetto_free,
};
