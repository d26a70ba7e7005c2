/* SPDX-License-Identifier: MIT */
/*
 * firefox: the processed profile of profiler.firefox.com, version 60: later ones read it. Source: github.com
 * firefox-devtools/profiler, docs-developer/CHANGELOG-formats.md and src/types/profile.ts.
 *
 * Its tables are columns: each is a sequence of the spool until the end. A thread has its samples of one event.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/json_writer.h"
#include "export/formats.h"
#include "export/output_buf.h"
#include "export/spool.h"
#include "export/stack_table.h"

enum { VERSION = 60, GECKO_VERSION = 27, SPOOL_BYTES = 32 << 20, NO_EVENT = -1 };

/* Sequences of what all threads share. */
enum shared {
	LIBS,
	STRINGS,
	SOURCES,
	RESOURCE_NAMES,
	FUNCTION_NAMES,
	FUNCTION_RESOURCES,
	FUNCTION_SOURCES,
	FRAME_FUNCTIONS,
	FRAME_CATEGORIES,
	FRAME_ADDRESSES,
	FRAME_LINES,
	STACK_FRAMES,
	STACK_PREFIXES,
	NR_SHARED,
};

/* And of each thread. */
enum column {
	SAMPLE_TIMES,
	SAMPLE_STACKS,
	SAMPLE_WEIGHTS,
	MARKER_NAMES,
	MARKER_DATA,
	MARKER_STARTS,
	MARKER_ENDS,
	MARKER_PHASES,
	NR_COLUMNS,
};

enum category { CATEGORY_USER, CATEGORY_KERNEL, CATEGORY_OTHER };

struct track {
	uint32_t thread; /* number; 0: what was lost */
	int event;       /* NO_EVENT: there were no samples yet */
	uint32_t columns[NR_COLUMNS];
	uint64_t nr_samples, nr_markers;
};

struct thread {
	uint32_t pid, tid;
	char *comm;     /* heap */
	uint32_t track; /* the first one, + 1; 0: none */
};

struct firefox {
	struct exporter exporter;
	struct output_buf output;
	struct spool *spool;
	uint32_t shared[NR_SHARED];
	struct text_table texts, sources; /* sources: numbers of texts would do as well, but they are few */
	uint32_t *object_names;           /* heap; by number: texts */
	struct hash_table by_function, by_track;
	struct thread *threads; /* heap; by number */
	struct track *tracks;   /* heap */
	uint32_t objects_room, threads_room, tracks_room;
	uint32_t nr_objects, nr_threads, nr_tracks, nr_functions, nr_frames, nr_stacks;
	struct progress progress; /* of what is written at the end */
	uint64_t start_ns;
};

static struct firefox *firefox_of(struct exporter *exporter)
{
	return (struct firefox *)exporter;
}

/* The next value of a column. */
static void put(struct firefox *firefox, uint32_t sequence, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void put(struct firefox *firefox, uint32_t sequence, const char *format, ...)
{
	struct buf *out = spool_end(firefox->spool, sequence);
	char text[64];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	buf_put(out, text, (size_t)len);
	buf_put_u8(out, ',');
}

static void put_shared(struct firefox *firefox, enum shared which, int64_t number)
{
	if (number < 0)
		put(firefox, firefox->shared[which], "null");
	else
		put(firefox, firefox->shared[which], "%" PRId64, number);
}

/* The index of a string, which is written when it is new. -ENOMEM. */
static int64_t string_of(struct firefox *firefox, const char *text)
{
	uint32_t number;
	int added = text_table_add(&firefox->texts, text, &number);

	if (added > 0) {
		struct buf *out = spool_end(firefox->spool, firefox->shared[STRINGS]);
		struct json_writer json = {.buf = out};
		json_text(&json, NULL, text);
		buf_put_u8(out, ',');
	}
	return added < 0 ? added : (int64_t)number;
}

static int firefox_open(struct exporter *exporter, struct diag *reterr)
{
	struct firefox *firefox = firefox_of(exporter);
	int err = 0;

	firefox->output.fd = exporter->fd;
	firefox->start_ns = exporter->profile.start_ns;
	firefox->spool = spool_new(SPOOL_BYTES, exporter->path);
	for (unsigned i = 0; i < NR_SHARED && firefox->spool && !err; i++)
		err = spool_add(firefox->spool, &firefox->shared[i]);
	return !firefox->spool || err ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}

/* As Breakpad names an ELF file: its build-id as a GUID of little-endian fields, and an age, 0. */
static void put_breakpad_id(struct buf *out, const struct export_object *object)
{
	static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

	for (unsigned i = 0; i < sizeof(order) && object->build_id_bytes; i++)
		buf_printf(out, "%02X", order[i] < object->build_id_bytes ? object->build_id[order[i]] : 0);
	if (object->build_id_bytes)
		buf_put_u8(out, '0');
}

static int firefox_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct firefox *firefox = firefox_of(exporter);
	const char *slash = strrchr(object->path, '/');
	const char *name = slash ? slash + 1 : object->path;
	AUTO_BUF struct buf breakpad = {0}, code = {0};

	put_breakpad_id(&breakpad, object);
	for (size_t i = 0; i < object->build_id_bytes; i++)
		buf_printf(&code, "%02x", object->build_id[i]);
	struct buf *out = spool_end(firefox->spool, firefox->shared[LIBS]);
	struct json_writer json = {.buf = out};
	json_object(&json, NULL);
	json_text(&json, "arch", exporter->profile.arch ? exporter->profile.arch : "");
	json_text(&json, "name", name);
	json_text(&json, "path", object->path);
	json_text(&json, "debugName", name);
	json_text(&json, "debugPath", object->path);
	json_text(&json, "breakpadId", buf_text(&breakpad));
	json_text(&json, "codeId", code.len ? buf_text(&code) : NULL);
	json_end(&json);
	buf_put_text(out, ",\n");
	int64_t text = string_of(firefox, name);
	if (text < 0 ||
	    table_make_room((void **)&firefox->object_names, sizeof(uint32_t), number, &firefox->objects_room))
		return -ENOMEM;
	firefox->object_names[number] = (uint32_t)text;
	firefox->nr_objects = number;
	put_shared(firefox, RESOURCE_NAMES, text);
	return spool_relieve(firefox->spool, NULL);
}

/* -1: the frame has none; -ENOMEM. */
static int64_t source_of(struct firefox *firefox, const char *file)
{
	uint32_t number;

	if (!file)
		return -1;
	int added = text_table_add(&firefox->sources, file, &number);
	if (added > 0) {
		int64_t text = string_of(firefox, file);
		if (text < 0)
			return text;
		put_shared(firefox, SOURCES, text);
	}
	return added < 0 ? added : (int64_t)number;
}

/* The index of the function of a frame. -ENOMEM. */
static int64_t function_of(struct firefox *firefox, const struct export_frame *frame)
{
	AUTO_BUF struct buf name = {0};
	const char *object = frame->object ? firefox->texts.texts[firefox->object_names[frame->object]] : NULL;

	frame_name_put(&name, frame, object);
	int64_t text = string_of(firefox, buf_text(&name)), source = source_of(firefox, frame->file);
	if (text < 0 || source == -ENOMEM)
		return -ENOMEM;
	uint64_t key = hash_mix((uint64_t)text << 32 | frame->object, (uint64_t)(source + 1));
	uint64_t known = hash_table_find_number(&firefox->by_function, key);
	if (known)
		return (int64_t)known - 1;
	if (hash_table_add_number(&firefox->by_function, key, (uint64_t)firefox->nr_functions + 1))
		return -ENOMEM;
	put_shared(firefox, FUNCTION_NAMES, text);
	put(firefox, firefox->shared[FUNCTION_RESOURCES], "%" PRId64, (int64_t)frame->object - 1);
	put_shared(firefox, FUNCTION_SOURCES, source);
	return firefox->nr_functions++;
}

static int firefox_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct firefox *firefox = firefox_of(exporter);
	int64_t function = function_of(firefox, frame);

	if (function < 0)
		return (int)function;
	firefox->nr_frames = number;
	put_shared(firefox, FRAME_FUNCTIONS, function);
	put_shared(firefox, FRAME_CATEGORIES, frame->kernel ? CATEGORY_KERNEL : CATEGORY_USER);
	/* Half of the readers of JSON have no integers of 64 bits: addresses in memory are left out. */
	bool fits = frame->object && !frame->kernel && frame->address < INT32_MAX;
	put(firefox, firefox->shared[FRAME_ADDRESSES], "%" PRId64, fits ? (int64_t)frame->address : -1);
	put_shared(firefox, FRAME_LINES, frame->line ? (int64_t)frame->line : -1);
	return spool_relieve(firefox->spool, NULL);
}

static int firefox_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct firefox *firefox = firefox_of(exporter);

	firefox->nr_stacks = number;
	put_shared(firefox, STACK_FRAMES, (int64_t)frame - 1);
	put_shared(firefox, STACK_PREFIXES, (int64_t)outer - 1);
	return spool_relieve(firefox->spool, NULL);
}

static int firefox_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct firefox *firefox = firefox_of(exporter);
	struct thread out = {.pid = thread->pid, .tid = thread->tid, .comm = strdup(thread->comm)};

	if (!out.comm || table_make_room((void **)&firefox->threads, sizeof(out), number, &firefox->threads_room)) {
		free(out.comm);
		return -ENOMEM;
	}
	firefox->threads[number] = out;
	firefox->nr_threads = number;
	return 0;
}

/* event NO_EVENT: any of the thread, a new one where it has none. NULL: out of memory. */
static struct track *find_track(struct firefox *firefox, uint32_t thread, int event)
{
	uint64_t key = (uint64_t)(uint32_t)event << 32 | thread;
	uint32_t at = (uint32_t)hash_table_find_number(&firefox->by_track, key);
	uint32_t first = thread ? firefox->threads[thread].track : 0;

	if (!at && first && (event == NO_EVENT || firefox->tracks[first - 1].event == NO_EVENT))
		at = first;
	if (!at) {
		at = firefox->nr_tracks + 1;
		if (table_make_room((void **)&firefox->tracks, sizeof(*firefox->tracks), at, &firefox->tracks_room) ||
		    hash_table_add_number(&firefox->by_track, key, at))
			return NULL;
		struct track *track = &firefox->tracks[at - 1];
		*track = (struct track){.thread = thread, .event = event};
		for (unsigned i = 0; i < NR_COLUMNS; i++)
			if (spool_add(firefox->spool, &track->columns[i]))
				return NULL;
		firefox->nr_tracks = at;
		if (thread && !first)
			firefox->threads[thread].track = at;
	}
	struct track *track = &firefox->tracks[at - 1];
	if (track->event == NO_EVENT && event != NO_EVENT) {
		if (hash_table_add_number(&firefox->by_track, key, at))
			return NULL;
		track->event = event;
	}
	return track;
}

/* Times are told since the first sample or marker. */
static void note_start(struct firefox *firefox, uint64_t time_ns)
{
	if (!firefox->start_ns)
		firefox->start_ns = time_ns;
}

/* Milliseconds since the start, exact. */
static void put_ms(struct firefox *firefox, uint32_t sequence, uint64_t time_ns)
{
	bool before = time_ns < firefox->start_ns;
	uint64_t ns = before ? firefox->start_ns - time_ns : time_ns - firefox->start_ns;

	put(firefox, sequence, "%s%" PRIu64 ".%06" PRIu64, before ? "-" : "", ns / 1000000, ns % 1000000);
}

static int firefox_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct firefox *firefox = firefox_of(exporter);

	note_start(firefox, sample->time_ns);
	struct track *track = find_track(firefox, sample->thread, (int)sample->event);
	if (!track)
		return -ENOMEM;
	track->nr_samples++;
	put_ms(firefox, track->columns[SAMPLE_TIMES], sample->time_ns ? sample->time_ns : firefox->start_ns);
	put(firefox, track->columns[SAMPLE_STACKS], "%" PRIu32, sample->stack - 1);
	if (exporter->profile.events[sample->event].unit == EXPORT_COUNT)
		put(firefox, track->columns[SAMPLE_WEIGHTS], "%" PRIu64, sample->period);
	else
		put(firefox, track->columns[SAMPLE_WEIGHTS], "%" PRIu64 ".%06" PRIu64, sample->period / 1000000,
		    sample->period % 1000000);
	return spool_relieve(firefox->spool, NULL);
}

static int firefox_marker(struct exporter *exporter, const struct export_marker *marker)
{
	static const char *const names[] = {
		[EXPORT_FORK] = "fork", [EXPORT_EXIT] = "exit",         [EXPORT_COMM] = "new name",
		[EXPORT_EXEC] = "exec", [EXPORT_LOST] = "lost records",
	};
	struct firefox *firefox = firefox_of(exporter);
	struct track *track = find_track(firefox, marker->thread, NO_EVENT);
	int64_t name = string_of(firefox, names[marker->kind]);
	bool lost = marker->kind == EXPORT_LOST;

	if (!track || name < 0)
		return -ENOMEM;
	note_start(firefox, marker->from_ns);
	track->nr_markers++;
	put(firefox, track->columns[MARKER_NAMES], "%" PRId64, name);
	put_ms(firefox, track->columns[MARKER_STARTS], marker->from_ns);
	if (lost)
		put_ms(firefox, track->columns[MARKER_ENDS], marker->to_ns);
	else
		put(firefox, track->columns[MARKER_ENDS], "null");
	put(firefox, track->columns[MARKER_PHASES], lost ? "1" : "0"); /* an interval, a moment */
	struct buf *out = spool_end(firefox->spool, track->columns[MARKER_DATA]);
	struct json_writer json = {.buf = out};
	json_object(&json, NULL);
	json_text(&json, "type", lost ? "Lost" : "Task");
	json_text(&json, lost ? "cause" : "name", marker->text);
	if (lost && marker->cpu >= 0)
		json_signed(&json, "cpu", marker->cpu);
	if (lost)
		json_number(&json, "records", marker->count);
	json_end(&json);
	buf_put_text(out, ",\n");
	return spool_relieve(firefox->spool, NULL);
}

/* `, "name": [column]`; each value has a comma behind it, and so has the last one. */
struct trim {
	struct output_buf *output;
	struct progress *progress;
	bool comma; /* not written yet */
};

static int put_trimmed(void *ctx, const void *bytes, size_t len)
{
	struct trim *trim = ctx;
	size_t whole = len;

	while (whole && (((const char *)bytes)[whole - 1] == '\n'))
		whole--;
	if (whole) { /* else the last comma is still that of the piece before */
		if (trim->comma)
			buf_put_u8(&trim->output->buf, ',');
		trim->comma = ((const char *)bytes)[whole - 1] == ',';
		buf_put(&trim->output->buf, bytes, trim->comma ? whole - 1 : whole);
	}
	progress_step(trim->progress, len, trim->progress->done + len);
	return output_buf_flush_large(trim->output);
}

static int put_column(struct firefox *firefox, const char *name, uint32_t sequence, struct diag *reterr)
{
	struct trim trim = {.output = &firefox->output, .progress = &firefox->progress};

	buf_printf(&firefox->output.buf, ",\n\"%s\":[", name);
	int err = spool_read(firefox->spool, sequence, put_trimmed, &trim, reterr);
	buf_put_u8(&firefox->output.buf, ']');
	return err;
}

static int put_shared_column(struct firefox *firefox, const char *name, enum shared which, struct diag *reterr)
{
	return put_column(firefox, name, firefox->shared[which], reterr);
}

/* A column with one value in all rows. */
static int put_constant(struct firefox *firefox, const char *name, const char *value, uint64_t nr)
{
	int err = 0;

	buf_printf(&firefox->output.buf, ",\n\"%s\":[", name);
	for (uint64_t i = 0; i < nr && !err; i++) {
		buf_printf(&firefox->output.buf, i ? ",%s" : "%s", value);
		err = output_buf_flush_large(&firefox->output);
	}
	buf_put_u8(&firefox->output.buf, ']');
	return err;
}

static void begin_table(struct firefox *firefox, const char *name, uint64_t nr)
{
	buf_printf(&firefox->output.buf, ",\n\"%s\":{\"length\":%" PRIu64, name, nr);
}

static void end_table(struct firefox *firefox)
{
	buf_put_u8(&firefox->output.buf, '}');
}

static int put_code_tables(struct firefox *firefox, struct diag *reterr)
{
	begin_table(firefox, "frameTable", firefox->nr_frames);
	int err = put_shared_column(firefox, "func", FRAME_FUNCTIONS, reterr);
	if (!err)
		err = put_shared_column(firefox, "category", FRAME_CATEGORIES, reterr);
	if (!err)
		err = put_shared_column(firefox, "address", FRAME_ADDRESSES, reterr);
	if (!err)
		err = put_shared_column(firefox, "line", FRAME_LINES, reterr);
	static const char *const empty[] = {"subcategory", "nativeSymbol", "innerWindowID", "column"};
	for (unsigned i = 0; i < sizeof(empty) / sizeof(empty[0]) && !err; i++)
		err = put_constant(firefox, empty[i], "null", firefox->nr_frames);
	if (!err)
		err = put_constant(firefox, "inlineDepth", "0", firefox->nr_frames);
	end_table(firefox);
	begin_table(firefox, "funcTable", firefox->nr_functions);
	if (!err)
		err = put_shared_column(firefox, "name", FUNCTION_NAMES, reterr);
	if (!err)
		err = put_shared_column(firefox, "resource", FUNCTION_RESOURCES, reterr);
	if (!err)
		err = put_shared_column(firefox, "source", FUNCTION_SOURCES, reterr);
	if (!err)
		err = put_constant(firefox, "isJS", "false", firefox->nr_functions);
	if (!err)
		err = put_constant(firefox, "relevantForJS", "false", firefox->nr_functions);
	if (!err)
		err = put_constant(firefox, "lineNumber", "null", firefox->nr_functions);
	if (!err)
		err = put_constant(firefox, "columnNumber", "null", firefox->nr_functions);
	end_table(firefox);
	return err;
}

static int put_shared_tables(struct firefox *firefox, struct diag *reterr)
{
	buf_put_text(&firefox->output.buf,
		     ",\n\"shared\":{\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],"
		     "\"name\":[],\"functionSize\":[]}");
	begin_table(firefox, "stackTable", firefox->nr_stacks);
	int err = put_shared_column(firefox, "frame", STACK_FRAMES, reterr);
	if (!err)
		err = put_shared_column(firefox, "prefix", STACK_PREFIXES, reterr);
	end_table(firefox);
	if (!err)
		err = put_code_tables(firefox, reterr);
	begin_table(firefox, "resourceTable", firefox->nr_objects);
	buf_put_text(&firefox->output.buf, ",\n\"lib\":[");
	for (uint32_t i = 0; i < firefox->nr_objects; i++)
		buf_printf(&firefox->output.buf, i ? ",%" PRIu32 : "%" PRIu32, i);
	buf_put_u8(&firefox->output.buf, ']');
	if (!err)
		err = put_shared_column(firefox, "name", RESOURCE_NAMES, reterr);
	if (!err)
		err = put_constant(firefox, "host", "null", firefox->nr_objects);
	if (!err)
		err = put_constant(firefox, "type", "1", firefox->nr_objects); /* a library */
	end_table(firefox);
	begin_table(firefox, "sources", firefox->sources.nr);
	if (!err)
		err = put_constant(firefox, "uuid", "null", firefox->sources.nr);
	if (!err)
		err = put_shared_column(firefox, "filename", SOURCES, reterr);
	end_table(firefox);
	if (!err)
		err = put_shared_column(firefox, "stringArray", STRINGS, reterr);
	end_table(firefox);
	return err;
}

static const char *weight_type(const struct firefox *firefox, const struct track *track)
{
	enum export_unit unit =
		track->event == NO_EVENT ? EXPORT_COUNT : firefox->exporter.profile.events[track->event].unit;

	return unit == EXPORT_COUNT ? "samples" : "tracing-ms";
}

/* Who it is. Pids are texts. */
static void put_identity(struct firefox *firefox, const struct track *track)
{
	char lost[] = "lost records";
	const struct thread of_losses = {.comm = lost};
	const struct thread *thread = track->thread ? &firefox->threads[track->thread] : &of_losses;
	const struct export_profile *about = &firefox->exporter.profile;
	struct json_writer json = {.buf = &firefox->output.buf};
	AUTO_BUF struct buf name = {0}, pid = {0};

	buf_put_text(&name, thread->comm);
	if (about->nr_events > 1 && track->event != NO_EVENT)
		buf_printf(&name, " (%s)", about->events[track->event].name);
	buf_printf(&pid, "%" PRId32, track->thread ? (int32_t)thread->pid : -2);
	json_object(&json, NULL);
	json_text(&json, "name", buf_text(&name));
	json_text(&json, "processName", thread->comm);
	json_text(&json, "pid", buf_text(&pid));
	json_signed(&json, "tid", (int32_t)thread->tid);
	json_bool(&json, "isMainThread", thread->pid == thread->tid && track->thread);
	json_text(&json, "processType", "default");
	json_number(&json, "processStartupTime", 0);
	json_null(&json, "processShutdownTime");
	json_number(&json, "registerTime", 0);
	json_null(&json, "unregisterTime");
	json_array(&json, "pausedRanges");
	json_end(&json);
	json_end(&json);
	firefox->output.buf.len--; /* the thread goes on */
}

static int put_thread(struct firefox *firefox, const struct track *track, struct diag *reterr)
{
	static const char *const marker_columns[] = {
		[MARKER_NAMES] = "name",   [MARKER_DATA] = "data",    [MARKER_STARTS] = "startTime",
		[MARKER_ENDS] = "endTime", [MARKER_PHASES] = "phase",
	};

	put_identity(firefox, track);
	begin_table(firefox, "samples", track->nr_samples);
	buf_printf(&firefox->output.buf, ",\"weightType\":\"%s\"", weight_type(firefox, track));
	int err = put_column(firefox, "stack", track->columns[SAMPLE_STACKS], reterr);
	if (!err)
		err = put_column(firefox, "time", track->columns[SAMPLE_TIMES], reterr);
	if (!err)
		err = put_column(firefox, "weight", track->columns[SAMPLE_WEIGHTS], reterr);
	end_table(firefox);
	begin_table(firefox, "markers", track->nr_markers);
	for (unsigned i = MARKER_NAMES; i <= MARKER_PHASES && !err; i++)
		err = put_column(firefox, marker_columns[i], track->columns[i], reterr);
	if (!err)
		err = put_constant(firefox, "category", "2", track->nr_markers);
	end_table(firefox);
	end_table(firefox);
	return err;
}

static void put_category(struct json_writer *json, const char *name, const char *color)
{
	json_object(json, NULL);
	json_text(json, "name", name);
	json_text(json, "color", color);
	json_array(json, "subcategories");
	json_text(json, NULL, "Other");
	json_end(json);
	json_end(json);
}

static void put_field(struct json_writer *json, const char *key, const char *label, const char *format)
{
	json_object(json, NULL);
	json_text(json, "key", key);
	json_text(json, "label", label);
	json_text(json, "format", format);
	json_end(json);
}

static void begin_schema(struct json_writer *json, const char *name)
{
	json_object(json, NULL);
	json_text(json, "name", name);
	json_array(json, "display");
	json_text(json, NULL, "marker-chart");
	json_text(json, NULL, "marker-table");
	json_text(json, NULL, "timeline-overview");
	json_end(json);
	json_array(json, "fields");
}

static void put_meta(struct firefox *firefox)
{
	const struct export_profile *about = &firefox->exporter.profile;
	uint64_t hz = about->nr_events ? about->events[0].frequency : 0;
	int64_t start_ns = about->wall_offset_ns ? (int64_t)firefox->start_ns + about->wall_offset_ns : 0;
	struct json_writer json = {.buf = &firefox->output.buf};

	json_object(&json, "meta");
	json_number(&json, "version", GECKO_VERSION);
	json_number(&json, "preprocessedProfileVersion", VERSION);
	json_printf(&json, "interval", "%.6f", hz ? 1000.0 / (double)hz : 1.0);
	json_printf(&json, "startTime", "%.3f", (double)start_ns / 1e6);
	json_number(&json, "processType", 0);
	json_number(&json, "stackwalk", 1);
	json_text(&json, "product", about->title);
	json_text(&json, "importedFrom", "millrace");
	if (about->command)
		json_text(&json, "arguments", about->command);
	if (about->os_release)
		json_text(&json, "oscpu", about->os_release);
	if (about->cpu)
		json_text(&json, "CPUName", about->cpu);
	json_bool(&json, "symbolicated", true);
	json_bool(&json, "usesOnlyOneStackType", true);
	json_bool(&json, "sourceCodeIsNotOnSearchfox", true);
	json_array(&json, "categories");
	put_category(&json, "User", "yellow");
	put_category(&json, "Kernel", "orange");
	put_category(&json, "Other", "grey");
	json_end(&json);
	json_array(&json, "markerSchema");
	begin_schema(&json, "Task");
	put_field(&json, "name", "Name", "string");
	json_end(&json);
	json_end(&json);
	begin_schema(&json, "Lost");
	put_field(&json, "cause", "Cause", "string");
	put_field(&json, "cpu", "CPU", "integer");
	put_field(&json, "records", "Records", "integer");
	json_end(&json);
	json_end(&json);
	json_end(&json);
	json_end(&json);
}

static int firefox_close(struct exporter *exporter, struct diag *reterr)
{
	struct firefox *firefox = firefox_of(exporter);
	struct buf *out = &firefox->output.buf;

	firefox->progress = (struct progress){.bytes = true, .total = spool_bytes(firefox->spool)};
	progress_start(&firefox->progress, "writing the tables");
	buf_put_u8(out, '{');
	put_meta(firefox);
	int err = put_column(firefox, "libs", firefox->shared[LIBS], reterr);
	if (!err)
		err = put_shared_tables(firefox, reterr);
	buf_put_text(out, ",\n\"threads\":[");
	for (uint32_t i = 0; i < firefox->nr_tracks && !err; i++) {
		buf_put_text(out, i ? ",\n" : "\n");
		err = put_thread(firefox, &firefox->tracks[i], reterr);
	}
	buf_put_text(out, "]}\n");
	progress_end(&firefox->progress);
	return err ? err : output_buf_flush(&firefox->output);
}

static void firefox_free(struct exporter *exporter)
{
	struct firefox *firefox = firefox_of(exporter);

	for (uint32_t i = 1; i <= firefox->nr_threads; i++)
		free(firefox->threads[i].comm);
	free(firefox->threads);
	free(firefox->tracks);
	free(firefox->object_names);
	output_buf_fini(&firefox->output);
	spool_free(firefox->spool);
	text_table_fini(&firefox->texts);
	text_table_fini(&firefox->sources);
	hash_table_fini(&firefox->by_function);
	hash_table_fini(&firefox->by_track);
}

const struct export_format export_firefox = {
	.name = "firefox",
	.suffix = ".firefox.json",
	.about = "JSON for profiler.firefox.com, and Perfetto: threads, task events, gaps",
	.state_bytes = sizeof(struct firefox),
	.open = firefox_open,
	.object = firefox_object,
	.frame = firefox_frame,
	.stack = firefox_stack,
	.thread = firefox_thread,
	.sample = firefox_sample,
	.marker = firefox_marker,
	.close = firefox_close,
	.free = firefox_free,
};
