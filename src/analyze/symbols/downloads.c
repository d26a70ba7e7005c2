/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/downloads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "config.h"

#ifdef HAVE_DEBUGINFOD

#include <elfutils/debuginfod.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash_table.h"
#include "sysinfo/library.h"

enum { MAX_BYTES = 1 << 30 /* of all together */ };
#define TIMEOUT_S "20" /* for the first 100 KiB; libdebuginfod's own is 90 s */

/* The functions of libdebuginfod.so.1, which is loaded for them: it needs libcurl, and that some forty more. */
static struct {
	__typeof__(debuginfod_begin) *begin;
	__typeof__(debuginfod_end) *end;
	__typeof__(debuginfod_find_debuginfo) *find_debuginfo;
	__typeof__(debuginfod_find_executable) *find_executable;
	__typeof__(debuginfod_set_progressfn) *set_progressfn;
	__typeof__(debuginfod_set_user_data) *set_user_data;
	__typeof__(debuginfod_get_user_data) *get_user_data;
	__typeof__(debuginfod_get_url) *get_url;
} library;

/* false: it is not installed, or too old. */
static bool load_library(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(debuginfod_begin, &library.begin),
		LIBRARY_FUNCTION(debuginfod_end, &library.end),
		LIBRARY_FUNCTION(debuginfod_find_debuginfo, &library.find_debuginfo),
		LIBRARY_FUNCTION(debuginfod_find_executable, &library.find_executable),
		LIBRARY_FUNCTION(debuginfod_set_progressfn, &library.set_progressfn),
		LIBRARY_FUNCTION(debuginfod_set_user_data, &library.set_user_data),
		LIBRARY_FUNCTION(debuginfod_get_user_data, &library.get_user_data),
		LIBRARY_FUNCTION(debuginfod_get_url, &library.get_url),
	};

	return library_load("libdebuginfod.so.1", functions, sizeof(functions) / sizeof(functions[0]));
}

struct downloads {
	pthread_mutex_t lock; /* of all below */
	struct download_options options;
	debuginfod_client *client;
	struct hash_table missing; /* a number for each part of a build-id that was not there */
	struct download_result result;
	const char *name; /* of what is downloaded now */
	bool too_large, ended_by_user;
};

/* Not 0 ends the download. `all` is not known before the server answers. */
static int on_progress(debuginfod_client *client, long bytes, long all)
{
	struct downloads *downloads = library.get_user_data(client);
	uint64_t before = downloads->result.bytes; /* a server may have sent more than it said */
	uint64_t left = before < MAX_BYTES ? MAX_BYTES - before : 0;
	bool (*progress)(const char *, uint64_t, uint64_t) = downloads->options.progress;

	downloads->too_large = (all > 0 && (uint64_t)all > left) || (bytes > 0 && (uint64_t)bytes > left);
	if (all == 0) /* `bytes` counts something else */
		bytes = 0;
	if (progress && !progress(downloads->name, bytes < 0 ? 0 : (uint64_t)bytes, all < 0 ? 0 : (uint64_t)all))
		downloads->ended_by_user = true;
	return downloads->too_large || downloads->ended_by_user;
}

static const char *urls_of(const struct download_options *options)
{
	return options->urls ? options->urls : getenv("DEBUGINFOD_URLS");
}

int downloads_check(const struct download_options *options, struct diag *reterr)
{
	const char *urls = urls_of(options);

	if (!urls || !*urls)
		return diag_set(reterr, -EINVAL,
				"no server is named: --debuginfod=URL, or DEBUGINFOD_URLS in the environment");
	if (!load_library())
		return diag_set(reterr, -EINVAL, "libdebuginfod.so.1 %s", library_problem());
	return 0;
}

int downloads_new(const struct download_options *options, struct downloads **ret)
{
	struct downloads *downloads = calloc(1, sizeof(*downloads));
	const char *urls = urls_of(options);

	/* It is said to libdebuginfod in this way alone. A time that the user has set stays. */
	if (!downloads || setenv("DEBUGINFOD_URLS", urls ? urls : "", 1) || setenv("DEBUGINFOD_TIMEOUT", TIMEOUT_S, 0))
		goto fail;
	downloads->options = *options;
	downloads->client = library.begin();
	if (!downloads->client)
		goto fail;
	pthread_mutex_init(&downloads->lock, NULL);
	library.set_user_data(downloads->client, downloads);
	library.set_progressfn(downloads->client, on_progress);
	*ret = downloads;
	return 0;
fail:
	free(downloads);
	return -ENOMEM;
}

void downloads_free(struct downloads *downloads)
{
	if (!downloads)
		return;
	library.end(downloads->client);
	hash_table_fini(&downloads->missing);
	pthread_mutex_destroy(&downloads->lock);
	free(downloads);
}

/* Counts what came, or why it did not. What a server is not reached for is not asked for again and again. */
static void count(struct downloads *downloads, int fd, bool was_there)
{
	struct download_result *result = &downloads->result;
	struct stat status;

	if (fd >= 0 && was_there) {
		return;
	} else if (fd >= 0) {
		result->nr++;
		result->bytes += fstat(fd, &status) ? 0 : (uint64_t)status.st_size;
	} else if (downloads->ended_by_user) {
		result->stopped = "interrupted";
	} else if (downloads->too_large || fd == -EFBIG) {
		result->nr_too_large++;
	} else if (fd == -ENOENT) {
		result->nr_missing++;
	} else {
		result->stopped = fd == -ETIME || fd == -ETIMEDOUT ? "no answer in time" : "no server can be reached";
	}
}

static int request(struct downloads *downloads, const struct elf_id *id, enum download_part part, char **ret)
{
	downloads->too_large = false;
	if (part == DOWNLOAD_DEBUG)
		return library.find_debuginfo(downloads->client, id->bytes, id->len, ret);
	return library.find_executable(downloads->client, id->bytes, id->len, ret);
}

char *downloads_get(struct downloads *downloads, const struct elf_id *id, enum download_part part, const char *name)
{
	char *path = NULL;

	if (!downloads || !id->len)
		return NULL;
	uint64_t key = (uint64_t)part;
	for (unsigned i = 0; i < id->len; i++)
		key = hash_mix(key, id->bytes[i]);
	pthread_mutex_lock(&downloads->lock);
	if (!downloads->result.stopped && !hash_table_find_number(&downloads->missing, key)) {
		downloads->name = name;
		int fd = request(downloads, id, part, &path);
		/* Only a download has an address. */
		count(downloads, fd, fd >= 0 && !library.get_url(downloads->client));
		if (fd < 0)
			hash_table_add_number(&downloads->missing, key, 1);
		else
			close(fd);
		if (downloads->options.progress)
			downloads->options.progress(NULL, 0, 0);
	}
	pthread_mutex_unlock(&downloads->lock);
	return path;
}

void downloads_result(struct downloads *downloads, struct download_result *ret)
{
	pthread_mutex_lock(&downloads->lock);
	*ret = downloads->result;
	pthread_mutex_unlock(&downloads->lock);
}

#else

int downloads_check(const struct download_options *options, struct diag *reterr)
{
	(void)options;
	return diag_set(
		reterr, -EINVAL,
		"this program was built without libdebuginfod; debuginfod-find(1) fills the cache that is read");
}

int downloads_new(const struct download_options *options, struct downloads **ret)
{
	(void)options, (void)ret;
	return 0;
}

void downloads_free(struct downloads *downloads)
{
	(void)downloads;
}

char *downloads_get(struct downloads *downloads, const struct elf_id *id, enum download_part part, const char *name)
{
	(void)downloads, (void)id, (void)part, (void)name;
	return NULL;
}

void downloads_result(struct downloads *downloads, struct download_result *ret)
{
	(void)downloads;
	*ret = (struct download_result){0};
}

#endif
