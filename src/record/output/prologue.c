/* SPDX-License-Identifier: MIT */
#include "record/output/prologue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "perfdata/header.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/output/task_log.h"
#include "record/setup/eventset.h"
#include "record/setup/target.h"
#include "record/setup/workload.h"
#include "record/synth/synth.h"

int prologue_file(const struct event_desc *descs, size_t nr, struct buf *out, struct file_header *ret_header)
{
	return header_encode(descs, nr, out, ret_header);
}

/* A record whose size is known when it is complete: put the header, append, then close it. */
static size_t begin_record(struct buf *out, uint32_t type)
{
	size_t at = out->len;
	struct perf_event_header header = {.type = type};

	buf_put(out, &header, sizeof(header));
	return at;
}

/* Fails, and takes the record back, when it is longer than a record can be. */
static bool end_record(struct buf *out, size_t at)
{
	size_t size = out->len - at;

	if (out->failed || size > RECORD_MAX_BYTES) {
		out->len = at;
		return false;
	}
	((struct perf_event_header *)(void *)(out->data + at))->size = (uint16_t)size;
	return true;
}

static void put_attr(const struct event_desc *desc, struct buf *out)
{
	size_t at = begin_record(out, RECORD_HEADER_ATTR);

	attr_encode(&desc->attr, out);
	buf_put(out, desc->ids, desc->nr_ids * sizeof(*desc->ids));
	if (!end_record(out, at))
		log_note("%s: too many ids for a pipe: readers will not know them all", desc->name);
}

/* A feature that does not fit into a record is left out, as perf does. */
static void put_features(const struct feature_set *set, struct buf *out)
{
	for (size_t i = 0; i < set->nr; i++) {
		size_t at = begin_record(out, RECORD_HEADER_FEATURE);
		buf_put_u64(out, set->payloads[i].bit);
		buf_put(out, set->payloads[i].bytes, set->payloads[i].len);
		end_record(out, at);
	}
}

/*
 * The blob follows the record, padded to 8, and the size that the record tells is the padded one. perf itself pads the
 * record to 16 bytes; all readers take 12, and hotspot takes nothing else.
 */
static int put_tracing_data(const struct features_params *params, struct buf *out, struct diag *reterr)
{
	AUTO_BUF struct buf blob = {0};
	int err = tracing_data_collect(params->tracepoints, params->nr_tracepoints, &blob, reterr);
	if (err)
		return err;
	buf_align(&blob, 8);

	size_t at = begin_record(out, RECORD_TRACING_DATA);
	buf_put_u32(out, (uint32_t)blob.len);
	end_record(out, at);
	buf_put(out, blob.data, blob.len);
	return 0;
}

int prologue_pipe(const struct features_params *features, struct buf *out, struct diag *reterr)
{
	struct feature_set set = {0};
	int err = features_collect(features, &set);

	if (err)
		return diag_set(reterr, err, "out of memory");
	header_encode_pipe(out);
	for (size_t i = 0; i < features->nr_events; i++)
		put_attr(&features->events[i], out);
	put_features(&set, out);
	feature_set_fini(&set);
	if (features->nr_tracepoints)
		err = put_tracing_data(features, out, reterr);
	return err;
}

static int put_ids(const struct eventset *set, struct buf *out)
{
	AUTO_FREE struct synth_id *ids = calloc(set->plan->nr_slots + 1, sizeof(*ids));
	size_t nr = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		const struct plan_slot *slot = &set->plan->slots[i];
		if (set->fds[i] < 0)
			continue;
		ids[nr++] = (struct synth_id){
			.id = set->ids[i],
			.index = set->plan->rings[slot->ring].place,
			.cpu = slot->cpu,
			.tid = slot->pid,
		};
	}
	return synth_id_index(ids, nr, out);
}

/* A task that has ended keeps the blank name. */
static void read_comm(pid_t tid, char *ret, size_t size)
{
	AUTO_BUF struct buf text = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", tid);
	if (fd_slurp(path, 64, &text) == 0)
		snprintf(ret, size, "%.*s", (int)strcspn(buf_text(&text), "\n"), buf_text(&text));
}

static int put_thread_map(const struct target *target, const struct workload *workload, struct buf *out)
{
	AUTO_FREE struct synth_task *tasks = calloc(target->nr_tids + 1, sizeof(*tasks));
	size_t nr = 0;

	if (!tasks)
		return -ENOMEM;
	for (; nr < target->nr_tids; nr++) {
		tasks[nr].tid = target->tids[nr];
		if (tasks[nr].tid != workload->pid)
			read_comm(tasks[nr].tid, tasks[nr].comm, sizeof(tasks[nr].comm));
	}
	return synth_thread_map(tasks, nr, out);
}

static bool proc_is_mounted(void)
{
	return access("/proc/self", F_OK) == 0;
}

/* Readers do without: say it and go on. */
static int optional(int err, const char *what, const char *loss)
{
	if (err && err != -ENOMEM) {
		bool unmounted = err == -ESRCH && !proc_is_mounted();
		log_note("%s: %s: %s", what, unmounted ? "not mounted" : strerror(-err), loss);
		return 0;
	}
	return err;
}

static int put_kernel(const struct synth_params *params, struct buf *out)
{
	int err = synth_kernel(params, out);

	if (err == -ENODATA) {
		log_note("/proc/kallsyms: shows no addresses (that takes CAP_SYSLOG, or kernel.kptr_restrict=0 and "
			 "kernel.perf_event_paranoid=1): kernel addresses will have no names");
		return 0;
	}
	if (err == -ENOENT && proc_is_mounted()) {
		log_note("/proc/kallsyms: does not exist (a kernel without CONFIG_KALLSYMS, or /proc is mounted with "
			 "subset=pid): kernel addresses will have no names");
		return 0;
	}
	if (err == -ENOENT)
		err = -ESRCH; /* "not mounted" */
	return optional(err, "/proc/kallsyms", "kernel addresses will have no names");
}

/* Only a privileged user may look at the programs that are loaded, and only such a one can sample them. */
static int put_bpf(const struct synth_params *params, struct buf *out)
{
	int err = synth_bpf(params, out);

	return err == -EPERM || err == -ENOSYS ? 0 : optional(err, "BPF programs", "they will have no names");
}

static bool samples_kernel(const struct initial_state *state)
{
	for (size_t i = 0; i < state->nr_descs; i++)
		if (!state->descs[i].attr.exclude_kernel)
			return true;
	return false;
}

static int put_running_tasks(const struct initial_state *state, const struct synth_params *params, struct buf *out)
{
	const struct target *target = state->target;
	int err = 0;

	if (params->skip_tasks && params->skip_maps) {
		/* nothing of what runs already */
	} else if (target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS) {
		err = synth_all_tasks(params, out);
	} else if (target->nr_pids) {
		for (size_t i = 0; i < target->nr_pids && (!err || err == -ESRCH); i++)
			err = synth_process(params, target->pids[i], out);
	} else if (target->kind == EVENT_TARGET_TASKS) {
		err = synth_threads(params, target->tids, target->nr_tids, out);
	}
	if (err && err != -ESRCH) /* a task that has ended since may have samples all the same */
		return err;
	err = state->workload->pid ? synth_workload(params, state->workload->pid, out) : 0;
	/* With --tail-synthesize the command may have ended: its records told of it while it ran. */
	return err == -ESRCH && proc_is_mounted() ? 0 : err;
}

/* The task log has no namespaces: those of tasks that still run. */
static int put_running_namespaces(const struct initial_state *state, const struct synth_params *params, struct buf *out)
{
	AUTO_BUF struct buf tasks = {0};
	struct synth_params without_maps = *params;
	struct perf_event_header header;

	without_maps.skip_maps = true;
	without_maps.nr_threads = params->nr_threads ? params->nr_threads : 1; /* others are recorded beside it */
	int err = put_running_tasks(state, &without_maps, &tasks);
	for (size_t at = 0; at < tasks.len; at += header.size) {
		memcpy(&header, tasks.data + at, sizeof(header));
		if (header.type == PERF_RECORD_NAMESPACES)
			buf_put(out, tasks.data + at, header.size);
	}
	return err == -ESRCH ? 0 : err; /* they have all ended */
}

/* Tasks that have ended since are known to the task log alone. */
static int put_tasks(const struct initial_state *state, const struct synth_params *params, struct buf *out)
{
	bool known;
	int err = task_log_put(state->task_log, out, &known);
	size_t before = out->len;

	if (err)
		return err;
	if (known)
		return params->namespaces ? put_running_namespaces(state, params, out) : 0;
	err = put_running_tasks(state, params, out);
	if (out->failed || (err && err != -ESRCH))
		return err;
	int begin_err = task_log_begin(state->task_log, (struct span){out->data + before, out->len - before});
	return begin_err ? begin_err : err;
}

/* What the events that carry records about tasks ask the kernel for is told of those that run already, too. */
static struct synth_params params_of(const struct initial_state *state, bool *ret_cgroups)
{
	struct synth_params params = {
		.trailer_bytes = sample_id_bytes(&state->descs[0].attr),
		.mmap2 = true,
		.skip_tasks = state->synth_options.no_tasks,
		.skip_maps = state->synth_options.no_maps,
		.maps_timeout_ms = state->synth_options.maps_timeout_ms,
		.nr_threads = state->synth_options.nr_threads,
	};

	*ret_cgroups = false;
	for (size_t i = 0; i < state->nr_descs; i++) {
		const struct perf_event_attr *attr = &state->descs[i].attr;
		params.data_maps |= attr->mmap_data;
		params.namespaces |= attr->namespaces;
		params.build_ids |= attr->build_id;
		*ret_cgroups |= attr->cgroup && !state->synth_options.no_cgroups;
	}
	return params;
}

int prologue_initial_state(const struct initial_state *state, struct buf *out, struct diag *reterr)
{
	bool cgroups;
	const struct synth_params params = params_of(state, &cgroups);
	int err = put_ids(state->set, out);

	if (!err && samples_kernel(state))
		err = put_kernel(&params, out);
	if (!err)
		err = synth_event_updates(state->descs, state->nr_descs, state->names, out);
	if (!err)
		err = put_thread_map(state->target, state->workload, out);
	if (!err)
		err = synth_cpu_map(state->target->per_thread ? NULL : &state->target->cpus, out);
	if (!err)
		err = put_bpf(&params, out);
	if (!err && cgroups)
		err = optional(synth_cgroups(&params, out), "cgroups", "they will have no names");
	if (!err)
		err = optional(put_tasks(state, &params, out), "/proc", "running tasks will have no names and maps");
	if (!err)
		err = synth_finished_init(out);
	if (!err && out->failed)
		err = -ENOMEM;
	return err ? diag_set(reterr, err, "cannot describe the tasks and maps that exist already: %s", strerror(-err))
		   : 0;
}
