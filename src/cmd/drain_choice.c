/* SPDX-License-Identifier: MIT */
#include "cmd/drain_choice.h"

#include <string.h>

#include "cmd/record_options.h"
#include "record/recording.h"
#include "record/target.h"

enum {
	/*
	 * Of as many one thread copies the rings away, however busy they are, with room to spare: docs/decisions/0032.
	 * With no more than that it drains them all.
	 */
	CPUS_EACH = 8,
};

/* --affinity=node with --threads: threads for each node, unless said otherwise. */
static const char *thread_spec_of(const struct record_options *options)
{
	if (options->threads.spec || !options->affinity)
		return options->threads.spec;
	return strcmp(options->affinity, "node") ? "cpu" : "numa";
}

/* Who reads a pipe waits for each round, which threads make together: one makes it at once. */
static bool are_many(const struct record_options *options, bool pipe, const struct target *target)
{
	return !options->threads.one && !pipe && !target->per_thread && cpuset_count(&target->cpus) > CPUS_EACH;
}

void drain_choose(const struct record_options *options, bool pipe, struct recording_options *recording)
{
	/* What is held in memory is held together, whoever drained it. */
	bool together = options->single_file || options->rotation.flight_ns || pipe;
	/* A ring waits for nobody when each CPU has its own reader, which the CPU runs before it goes on filling the ring. */
	bool asked = options->threads.given || options->on_pressure == ON_PRESSURE_FREEZE;
	bool many = !asked && are_many(options, pipe, recording->target);

	recording->threads = asked || many;
	recording->directory = options->threads.given && !together;
	recording->thread_spec = thread_spec_of(options);
	recording->cpus_per_thread = many ? CPUS_EACH : 0;
	recording->writer = options->writer;
	/* What many threads drain one cannot pass through the page cache. What is held or compressed first is less. */
	if (many && !options->writer.ops && !recording->compression_level && !options->rotation.flight_ns)
		recording->writer = (struct recording_writer){.ops = &writer_direct, .automatic = true};
	if (options->writer.ops == &writer_null && !recording->directory)
		recording->output = "/dev/null";
}
