/* SPDX-License-Identifier: MIT */
#include "event/names/names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perfmon/pfmlib_perf_event.h>

#include "base/cleanup.h"
#include "sysinfo/library.h"

static struct {
	__typeof__(pfm_initialize) *initialize;
	__typeof__(pfm_terminate) *terminate;
	__typeof__(pfm_get_event_info) *get_event_info;
	__typeof__(pfm_get_os_event_encoding) *get_os_event_encoding;
	__typeof__(pfm_strerror) *strerror;
} pfm;

/* Its tables have 41,000 relocations, and most recordings are of events that are known without it. */
static bool load_pfm(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(pfm_initialize, &pfm.initialize),
		LIBRARY_FUNCTION(pfm_terminate, &pfm.terminate),
		LIBRARY_FUNCTION(pfm_get_event_info, &pfm.get_event_info),
		LIBRARY_FUNCTION(pfm_get_os_event_encoding, &pfm.get_os_event_encoding),
		LIBRARY_FUNCTION(pfm_strerror, &pfm.strerror),
	};

	return library_load("libpfm.so.4", functions, sizeof(functions) / sizeof(functions[0]));
}

bool pfm_built(void)
{
	return true;
}

static const char disabled_variable[] = "LIBPFM_DISABLED_PMUS";

/*
 * Says which tables the next pfm_initialize() leaves out: those that the user does, and the generic ones. Always said,
 * because the library goes on with the pointer that it had when the variable is not set. *ret_before is the value
 * before (heap; NULL: the variable was not set). libpfm(3), ENVIRONMENT VARIABLES.
 */
static int disable_tables(bool generic, char **ret_before)
{
	AUTO_FREE char *all = NULL, *before = NULL;
	const char *own = getenv(disabled_variable);

	if (own && !(before = strdup(own)))
		return -ENOMEM;
	if (asprintf(&all, "%s%s", own ? own : "",
		     !generic      ? ""
		     : own && *own ? ",perf,perf_raw"
				   : "perf,perf_raw") < 0) {
		all = NULL;
		return -ENOMEM;
	}
	if (setenv(disabled_variable, all, true))
		return -errno;
	*ret_before = take_ptr(before);
	return 0;
}

/* The command that is recorded inherits the environment: it stays as it was. */
static void restore_variable(const char *before)
{
	if (before)
		setenv(disabled_variable, before, true);
	else
		unsetenv(disabled_variable);
}

static bool is_generic(int idx)
{
	pfm_event_info_t info = {.size = sizeof(info)};

	return pfm.get_event_info(idx, PFM_OS_NONE, &info) == PFM_SUCCESS &&
	       (info.pmu == PFM_PMU_PERF_EVENT || info.pmu == PFM_PMU_PERF_EVENT_RAW);
}

/* A code of libpfm(3). */
static int encode(const char *name, bool generic, pfm_perf_encode_arg_t *arg)
{
	/*
	 * State of the library's: a table that was read once and is left out later is used all the same, though freed.
	 */
	static bool generic_read;
	AUTO_FREE char *before = NULL;

	if (disable_tables(!generic && !generic_read, &before))
		return PFM_ERR_NOMEM;
	generic_read = generic_read || generic;
	int err = pfm.initialize();
	restore_variable(before);
	if (err != PFM_SUCCESS)
		return err;
	err = pfm.get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT_EXT, arg);
	if (err == PFM_SUCCESS && !generic && is_generic(arg->idx))
		err = PFM_ERR_NOTFOUND;
	pfm.terminate();
	return err;
}

int pfm_encode(const char *name, enum pfm_tables tables, struct perf_event_attr *ret, const char **ret_why)
{
	/* The library's own attr may be older than ours: only what both have had from the start is taken. */
	struct perf_event_attr attr = {.size = sizeof(attr)};
	pfm_perf_encode_arg_t arg = {.attr = &attr, .size = sizeof(arg)};
	bool generic = tables == PFM_GENERIC || !strncmp(name, "PERF_COUNT_", strlen("PERF_COUNT_"));

	if (!load_pfm()) {
		if (ret_why)
			*ret_why = "libpfm.so.4 is not installed";
		return -EINVAL;
	}
	int err = encode(name, false, &arg);

	if (err != PFM_SUCCESS && generic) {
		attr = (struct perf_event_attr){.size = sizeof(attr)};
		err = encode(name, true, &arg);
	}
	if (err != PFM_SUCCESS) {
		if (ret_why)
			*ret_why = pfm.strerror(err);
		return -EINVAL;
	}
	ret->type = attr.type;
	ret->config = attr.config;
	ret->config1 = attr.config1;
	ret->config2 = attr.config2;
	ret->exclude_user = attr.exclude_user;
	ret->exclude_kernel = attr.exclude_kernel;
	ret->exclude_hv = attr.exclude_hv;
	/* The modifiers that are perf_event_open(2)'s: period=, freq=, precise=, pinned, excl. */
	ret->freq = attr.freq;
	ret->sample_period = attr.sample_period;
	ret->precise_ip = attr.precise_ip;
	ret->pinned = attr.pinned;
	ret->exclusive = attr.exclusive;
	return 0;
}
