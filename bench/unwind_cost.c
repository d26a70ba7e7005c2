/* SPDX-License-Identifier: MIT */
/*
 * unwind_cost FILE [ROUNDS]: CPU time of the unwinder alone, over the stack dumps of a recording:
 *   samples=N frames=N us_per_sample=X ns_per_frame=X cold_us_per_sample=X
 * Cold: the first time, with building tables. The others are the mean of ROUNDS (10), each over up to 512 samples
 * whose copies (MB of stack) are not in the nearest caches.
 * unwind_cost --tables: reads the files named on standard input, as when one of their functions is sampled (the first
 * three), then makes all rows of all tables:
 *   read_us_per_file=X read_mb=X resident_mb=X files=N tables=N rows=N rules=N bytes_per_row=X rows_per_s=N table_mb=X
 *   peak_mb=X
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyze/machine/machine.h"
#include "base/diag.h"
#include "perfdata/sample.h"
#include "read/session.h"
#include "unwind/unwind.h"

enum { MOST_FILES = 1 << 16, BATCH = 512, MOST_FRAMES = 127, MOST_REGS = 64, SLOT_BYTES = 66 * 1024 };

struct one {
	struct task *task;
	struct sample sample;
	uint64_t regs[MOST_REGS];
};

struct run {
	struct machine *machine;
	unsigned rounds, nr;
	struct one batch[BATCH];
	char *stacks;
	uint64_t nr_samples, nr_frames, cold_ns, warm_ns;
};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t unwind_batch(struct run *run)
{
	uint64_t ips[MOST_FRAMES], nr_frames = 0;
	struct unwind_chain chain = {.ips = ips, .max = MOST_FRAMES};

	for (unsigned i = 0; i < run->nr; i++) {
		machine_unwind(run->machine, run->batch[i].task, &run->batch[i].sample, &chain);
		nr_frames += chain.nr;
	}
	return nr_frames;
}

static void measure_batch(struct run *run)
{
	if (!run->nr)
		return;
	uint64_t begin = cpu_ns();
	run->nr_frames += unwind_batch(run);
	uint64_t warm = cpu_ns();
	run->cold_ns += warm - begin;
	for (unsigned i = 0; i < run->rounds; i++)
		unwind_batch(run);
	run->warm_ns += cpu_ns() - warm;
	run->nr_samples += run->nr;
	run->nr = 0;
}

static void add_sample(struct run *run, const struct sample *sample)
{
	struct one *one = &run->batch[run->nr];
	size_t nr_regs = (size_t)__builtin_popcountll(sample->user_regs.mask);

	if (!sample->user_stack.len || sample->user_stack.len > SLOT_BYTES || !sample->user_regs.regs)
		return;
	one->task = machine_task(run->machine, sample->pid, sample->tid);
	one->sample = *sample;
	memcpy(one->regs, sample->user_regs.regs, nr_regs * sizeof(one->regs[0]));
	one->sample.user_regs.regs = one->regs;
	one->sample.user_stack.ptr =
		memcpy(run->stacks + (size_t)run->nr * SLOT_BYTES, sample->user_stack.ptr, sample->user_stack.len);
	if (one->task && ++run->nr == BATCH)
		measure_batch(run);
}

static int measure_recording(const char *path, unsigned rounds)
{
	static struct run run;
	struct session *session;
	struct session_record record;
	struct diag why = {""};
	struct symbol_options options = {0};

	run.rounds = rounds;
	run.stacks = malloc((size_t)BATCH * SLOT_BYTES);
	if (!run.stacks || session_open(path, 0, &session, &why) || machine_new(&options, session, &run.machine)) {
		fprintf(stderr, "unwind_cost: %s\n", why.text);
		return 1;
	}
	while (session_next(session, &record, &why) == 1) {
		if (record.view.header->type == PERF_RECORD_SAMPLE) {
			add_sample(&run, &record.sample);
		} else {
			measure_batch(&run); /* what is mapped may change */
			machine_process(run.machine, &record);
		}
	}
	measure_batch(&run);
	double samples = (double)(run.nr_samples ? run.nr_samples : 1), warm = (double)run.warm_ns / rounds;
	printf("samples=%lu frames=%lu us_per_sample=%.3f ns_per_frame=%.1f cold_us_per_sample=%.3f\n", run.nr_samples,
	       run.nr_frames, warm / samples / 1e3, warm / (double)(run.nr_frames ? run.nr_frames : 1),
	       (double)run.cold_ns / samples / 1e3);
	machine_free(run.machine);
	session_close(session);
	free(run.stacks);
	return 0;
}

/* Of /proc/self/status, in MB. */
static double status_mb(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	double mb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			mb = strtod(line + strlen(name), NULL) / 1024;
	if (file)
		fclose(file);
	return mb;
}

static int measure_tables(void)
{
	static struct unwind_object *objects[MOST_FILES];
	struct unwind_tables *tables = unwind_tables_new(NULL, SIZE_MAX);
	struct unwind_stats read, whole;
	size_t nr = 0;
	char path[4096];
	double before = status_mb("VmRSS:");

	while (tables && nr < MOST_FILES && fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = '\0';
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		struct diag why = {""};
		objects[nr] = unwind_tables_object(tables, path, strlen(path));
		int err = fd < 0 || !objects[nr] ? -1 : unwind_object_build(objects[nr], fd, &why);
		if (err)
			fprintf(stderr, "%s: %s\n", path, why.text);
		nr += objects[nr] != NULL;
		if (fd >= 0)
			close(fd);
	}
	if (!tables)
		return 1;
	unwind_tables_stats(tables, &read);
	double resident = status_mb("VmRSS:") - before;
	for (size_t i = 0; i < nr; i++)
		unwind_object_complete(objects[i]);
	unwind_tables_stats(tables, &whole);
	double rows = (double)(whole.nr_rows ? whole.nr_rows : 1), files = nr ? (double)nr : 1;
	printf("read_us_per_file=%.1f read_mb=%.1f resident_mb=%.1f files=%zu tables=%lu rows=%lu rules=%lu "
	       "bytes_per_row=%.2f rows_per_s=%.0f table_mb=%.1f peak_mb=%.1f\n",
	       (double)read.build_ns / 1e3 / files, (double)read.table_bytes / 1e6, resident, nr, whole.nr_tables,
	       whole.nr_rows, whole.nr_rules, (double)whole.table_bytes / rows, rows / ((double)whole.build_ns / 1e9),
	       (double)whole.table_bytes / 1e6, status_mb("VmHWM:"));
	unwind_tables_free(tables);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--tables"))
		return measure_tables();
	if (argc == 2 || argc == 3)
		return measure_recording(argv[1], argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 10);
	fprintf(stderr, "Usage: unwind_cost FILE [ROUNDS] | unwind_cost --tables <NAMES\n");
	return 2;
}
