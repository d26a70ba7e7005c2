/* SPDX-License-Identifier: MIT */
/* What would give names to the samples that have none, by how many those are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "cmd/report/report.h"
#include "config.h"
#include "perfdata/perf_maps.h"
#include "tasks/maps.h"

#ifdef HAVE_DEBUGINFOD
static const char or_debuginfod[] = ", or --debuginfod";
#else
static const char or_debuginfod[] = "";
#endif

enum { LEAST_PERCENT = 1, LIST_MAX_BYTES = 1 << 24 };

/* Samples without a symbol in one object. */
struct unnamed {
	const struct dso *dso;   /* NULL: no map */
	const struct task *task; /* of the first of them */
	char level;
	uint64_t nr;
};

struct unnamed_list {
	struct unnamed *at; /* heap */
	size_t nr, room;
	uint64_t nr_samples; /* all, named or not */
	struct hash_table by_dso;
};

static int add_cell(struct unnamed_list *list, const struct tally_cell *cell)
{
	const struct hist_place *place = &cell->place;
	uint64_t key = hash_mix((uintptr_t)place->dso, (uint64_t)place->level);

	list->nr_samples += cell->amount.nr_samples;
	if (place->symbol || !cell->amount.nr_samples)
		return 0;
	uint64_t index = hash_table_find_number(&list->by_dso, key);
	if (!index) {
		if (array_room(list->at, list->nr, list->room))
			return -ENOMEM;
		if (hash_table_add_number(&list->by_dso, key, list->nr + 1))
			return -ENOMEM;
		list->at[list->nr++] = (struct unnamed){.dso = place->dso, .task = place->task, .level = place->level};
		index = list->nr;
	}
	list->at[index - 1].nr += cell->amount.nr_samples;
	return 0;
}

static int compare_unnamed(const void *left, const void *right)
{
	const struct unnamed *a = left, *b = right;

	return a->nr != b->nr ? (a->nr < b->nr ? 1 : -1)
			      : strcmp(a->dso ? a->dso->name : "", b->dso ? b->dso->name : "");
}

static int collect(const struct samples *samples, struct unnamed_list *list)
{
	for (size_t i = 0; i < samples->nr; i++) {
		const struct tally *tally = &samples->events[i].tally;
		for (uint32_t cell = 0; cell < tally->nr; cell++) {
			const struct tally_cell at = tally_cell(tally, cell);
			int err = at.place.filtered ? 0 : add_cell(list, &at);
			if (err)
				return err;
		}
	}
	if (list->nr)
		qsort(list->at, list->nr, sizeof(*list->at), compare_unnamed);
	return 0;
}

/* How run-time compilers are told to write down their code, by an object that the process has mapped. */
static const struct runtime {
	const char *object; /* the beginning of its name */
	const char *advice;
} runtimes[] = {
	{"libjvm.so",
	 "start java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, or with libperf-jvmti.so"},
	{"node", "start node with --perf-basic-prof"},
	{"libnode", "start node with --perf-basic-prof"},
	{"libcoreclr", "set DOTNET_PerfMapEnabled=1"},
	{"beam.smp", "start erl with +JPperf true"},
	{"libjulia", "set ENABLE_JITPROFILING=1"},
	{"luajit", "build LuaJIT with -DLUAJIT_USE_PERFTOOLS"},
	{"libluajit", "build LuaJIT with -DLUAJIT_USE_PERFTOOLS"},
	{"php", "set opcache.jit_debug=0x10"},
	{"python3", "start python with -X perf (3.12 or later)"},
	{"libpython3", "start python with -X perf (3.12 or later)"},
	{"ruby", "start ruby with --yjit-perf"},
};

enum { NR_RUNTIMES = sizeof(runtimes) / sizeof(runtimes[0]) };

struct runtime_search {
	const struct maps *maps;
	size_t found; /* the lowest index in runtimes[]; NR_RUNTIMES: none */
};

static void find_runtime(const struct map *map, void *ctx)
{
	struct runtime_search *search = ctx;
	const struct dso *dso = map->object;

	if (!dso || maps_is_former(search->maps, map))
		return;
	for (size_t i = 0; i < search->found; i++)
		if (strncmp(dso_short_name(dso), runtimes[i].object, strlen(runtimes[i].object)) == 0)
			search->found = i;
}

static const char *runtime_advice(const struct task *task)
{
	struct runtime_search search = {task->maps, NR_RUNTIMES};

	if (task->maps)
		maps_visit(task->maps, find_runtime, &search);
	return search.found < NR_RUNTIMES ? runtimes[search.found].advice
					  : "make its runtime write /tmp/perf-PID.map or a jitdump";
}

/* A former process with the number left a map that is older than this; NULL: none did. */
static const char *younger_than_map(const struct dso *dso)
{
	if (dso->doubt.why != DSO_MAP_NOT_KEPT)
		return NULL;
	return dso->doubt.missing == PERF_MAP_OLDER                  ? "process"
	       : dso->doubt.missing == PERF_MAP_OLDER_THAN_RECORDING ? "recording"
								     : NULL;
}

static void put_jit(const struct machine *machine, const struct unnamed *unnamed, struct buf *out)
{
	const struct task *main_task = machine_known_task(machine, unnamed->task->pid, unnamed->task->pid);
	const struct task *task = main_task ? main_task : unnamed->task;
	const struct dso *dso = unnamed->dso;

	buf_printf(out, "code that %s (pid %u) compiled at run time", task->comm->text, task->pid);
	if (dso->jit && !machine_has_jit_clock(machine))
		buf_put_text(out, ", which its jitdump names by the time: record with -k mono");
	else if (dso->lost_dump)
		buf_printf(out, ", whose jitdump %s is not here%s: record with --bundle keeps it", dso->lost_dump,
			   dso->table->of_another_machine ? ", but on the machine that recorded" : " any more");
	else if (dso->symbols.name_conflicts)
		buf_put_text(out, ", of which its map has no name, or those of several functions, as memory was used "
				  "again: a jitdump has the times (node --perf-prof), record it with -k mono");
	else if (dso->jit || dso->symbols.nr)
		buf_put_text(out, ", of which its map has no name");
	else if (dso->table->of_another_machine && !dso->table->perf_maps.ptr)
		buf_printf(out,
			   ", on another machine, without a map of it: copy %s from there to DIR%s and use "
			   "--symfs=DIR, or %s",
			   dso->name, dso->name, runtime_advice(task));
	else if (younger_than_map(dso))
		buf_printf(out, ", without a map of it, as %s was older than the %s: %s", dso->name,
			   younger_than_map(dso), runtime_advice(task));
	else
		buf_printf(out, ", without a map of it: %s", runtime_advice(task));
}

/*
 * Whether a list of dpkg has the path as a line, with /usr before it or without: packages of the time before /lib and
 * /bin were links have it without. The text ends with a NUL.
 */
static bool list_has(const char *text, const char *path)
{
	static const char usr[] = "/usr";
	size_t usr_len = strlen(usr), len;

	if (strncmp(path, "/usr/", 5) == 0)
		path += usr_len;
	len = strlen(path);
	for (const char *at = text; (at = strstr(at, path)); at += len) {
		const char *line = at;
		if (at - text >= (ptrdiff_t)usr_len && strncmp(at - usr_len, usr, usr_len) == 0)
			line -= usr_len;
		if ((line == text || line[-1] == '\n') && (at[len] == '\n' || !at[len]))
			return true;
	}
	return false;
}

/* The Debian package that installed a file. false: not known, or the name of the object is no path. */
static bool find_package(const char *path, char ret[128])
{
	static const char directory[] = "/var/lib/dpkg/info";
	DIR *dir = path[0] == '/' ? opendir(directory) : NULL;
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		AUTO_BUF struct buf text = {0};
		size_t len = strlen(entry->d_name);
		if (len <= 5 || strcmp(entry->d_name + len - 5, ".list") != 0)
			continue;
		AUTO_FD int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || fd_slurp_rest(fd, LIST_MAX_BYTES, &text))
			continue;
		found = list_has(buf_text(&text), path);
		if (found)
			snprintf(ret, 128, "%.*s", (int)strcspn(entry->d_name, ":"), entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (found && strlen(ret) > 5 && strcmp(ret + strlen(ret) - 5, ".list") == 0)
		ret[strlen(ret) - 5] = '\0';
	return found;
}

/* The recorder reads the build-id of each file that it finds, and keeps copies by build-id alone. */
static bool was_never_read(const struct dso *dso)
{
	return dso->source == DSO_NO_FILE && !dso->build_id.len && !dso->copy_id.len && dso->table->file_ids.ptr;
}

static void put_file(const struct dso *dso, struct buf *out)
{
	AUTO_FREE char *doubt = dso_doubt_text(dso);
	const char *debuginfod = dso->build_id.len ? or_debuginfod : "";
	char package[128];

	if (doubt)
		buf_put_text(out, doubt);
	else if (dso->source == DSO_NO_FILE && dso->refusal)
		buf_printf(out, "%s cannot be read: %s", dso->name, strerror(-dso->refusal));
	else if (was_never_read(dso))
		buf_printf(out,
			   "%s is not here: it was removed, or not accessible, before record could read it, or it has "
			   "no build-id, by which a copy is found",
			   dso->name);
	else if (dso->source == DSO_NO_FILE && dso->table->keeps_none)
		buf_printf(out,
			   "%s is not here, and record keeps no copies with -B or --buildid-mmap: leave them out%s",
			   dso->name, debuginfod);
	else if (dso->source == DSO_NO_FILE)
		buf_printf(out,
			   "%s is not here, and no copy of it: record with --bundle, or name record\'s --buildid-dir%s",
			   dso->name, debuginfod);
	else if (find_package(dso->name, package))
		buf_printf(out, "%s is stripped: apt install %s-%s%s", dso_short_name(dso), package,
			   strcmp(package, "libc6") == 0 ? "dbg" : "dbgsym", debuginfod);
	else
		buf_printf(out, "%s is stripped: install its debug symbols%s", dso_short_name(dso), debuginfod);
}

/* Nothing: there is no remedy. */
static void put_remedy(const struct machine *machine, const struct unnamed *unnamed, struct buf *out)
{
	const struct dso *dso = unnamed->dso;

	if (!dso) {
		if (unnamed->level == 'k')
			buf_put_text(out, "in the kernel, of which the recording has no map: record as root; "
					  "in a container this needs CAP_SYSLOG, too");
		return;
	}
	switch (dso->kind) {
	case DSO_PERFMAP:
		if (dso->doubt.why && !younger_than_map(dso))
			put_file(dso, out);
		else
			put_jit(machine, unnamed, out);
		break;
	case DSO_FILE:
		if (dso->doubt.why || dso->source != DSO_ALL_SYMBOLS)
			put_file(dso, out);
		break;
	case DSO_KERNEL:
		if (!dso->symbols.nr)
			buf_printf(out,
				   "the kernel's symbols are not readable (kernel.kptr_restrict), or those of another "
				   "kernel: report as root, --kallsyms, --vmlinux, or record with --bundle");
		break;
	case DSO_MODULE:
		/* As merge names what is in the kernel of another machine than the first. */
		if (dso->name[0] == '[' && strstr(dso->name, " of "))
			buf_printf(out,
				   "%s has no names: a merged file has those of its first machine's kernel only; "
				   "report the recording of that machine by itself",
				   dso->name);
		else if (!dso->symbols.nr)
			buf_printf(out, "the kernel module %s is not here: record with --bundle", dso->name);
		break;
	default: break;
	}
}

static bool is_listed(const struct hint_list *list, const struct dso *dso)
{
	for (size_t i = 0; i < list->nr; i++)
		if (list->at[i].dso == dso)
			return true;
	return false;
}

static void add(struct hint_list *list, const struct dso *dso, double percent, struct buf *text)
{
	char *copy = text->len && !text->failed ? strdup(buf_text(text)) : NULL;

	if (copy)
		list->at[list->nr++] = (struct hint){.dso = dso, .percent = percent, .text = copy};
}

/* Objects that have no samples of their own, but callers. */
static void add_callers(const struct machine *machine, size_t max, struct hint_list *list)
{
	const struct dso *dsos[HINTS_MAX];
	size_t nr = machine_list_doubts(machine, dsos, HINTS_MAX);

	for (size_t i = 0; i < nr && i < HINTS_MAX && list->nr < max; i++) {
		AUTO_BUF struct buf text = {0};
		if (!is_listed(list, dsos[i]))
			put_file(dsos[i], &text);
		add(list, dsos[i], 0, &text);
	}
}

int hints_make(const struct samples *samples, struct hint_list *ret)
{
	size_t max = log_level() >= LOG_VERBOSE ? HINTS_MAX : HINTS_SHOWN;
	struct unnamed_list list = {0};
	int err = collect(samples, &list);

	*ret = (struct hint_list){0};
	for (size_t i = 0; !err && i < list.nr && ret->nr < max; i++) {
		const struct unnamed *unnamed = &list.at[i];
		double percent = 100.0 * (double)unnamed->nr / (double)list.nr_samples;
		bool doubt = unnamed->dso && unnamed->dso->doubt.why;
		AUTO_BUF struct buf text = {0};
		if (percent >= LEAST_PERCENT || doubt)
			put_remedy(samples->machine, unnamed, &text);
		add(ret, unnamed->dso, percent, &text);
	}
	if (!err)
		add_callers(samples->machine, max, ret);
	free(list.at);
	hash_table_fini(&list.by_dso);
	return err;
}

void hints_print(const struct hint_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		const struct hint *hint = &list->at[i];
		if (hint->percent > 0)
			log_note("%.*f %% of samples: %s", hint->percent < 1, hint->percent, hint->text);
		else
			log_note("%s", hint->text);
	}
}

void hints_fini(struct hint_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->at[i].text);
	list->nr = 0;
}
