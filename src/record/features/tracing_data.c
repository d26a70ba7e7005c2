/* SPDX-License-Identifier: MIT */
/*
 * The TRACING_DATA blob. Source of the layout: trace-cmd.dat.v6(5), version 6 without sections; that perf
 * takes version "0.6" with saved command lines was seen in its files. Systems and events stand in the order
 * of their directories.
 */
#include "record/features/features_private.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"

enum { FILE_MAX_BYTES = 64 << 20 };

struct tracing {
	const char *root;
	const char *const *tracepoints;
	size_t nr;
	size_t found;
	struct buf *out;
	struct diag *reterr;
};

enum size_width { SIZE_U32, SIZE_U64 };

static void put_text(struct tracing *tracing, const struct buf *text, enum size_width width)
{
	if (width == SIZE_U32)
		buf_put_u32(tracing->out, (uint32_t)text->len);
	else
		buf_put_u64(tracing->out, text->len);
	buf_put(tracing->out, text->data, text->len);
}

/* Appends the size of a file (not known before it is read) and its text. */
static int put_file(struct tracing *tracing, const char *path, enum size_width width)
{
	AUTO_BUF struct buf text = {0};
	int err = fd_slurp(path, FILE_MAX_BYTES, &text);

	if (err)
		return diag_set(tracing->reterr, err, "cannot read %s: %s", path, strerror(-err));
	put_text(tracing, &text, width);
	return 0;
}

static int put_root_file(struct tracing *tracing, const char *name, enum size_width width)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", tracing->root, name);
	return put_file(tracing, path, width);
}

/*
 * The same, of what readers can do without. Who may record tracepoints need not be able to read it: their formats may
 * be readable for all where these texts, which tell addresses and names of commands, are not.
 */
static int put_optional_file(struct tracing *tracing, const char *name, enum size_width width)
{
	AUTO_BUF struct buf text = {0};
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", tracing->root, name);
	int err = fd_slurp(path, FILE_MAX_BYTES, &text);
	if (err && err != -EACCES && err != -EPERM && err != -ENOENT)
		return diag_set(tracing->reterr, err, "cannot read %s: %s", path, strerror(-err));
	put_text(tracing, &text, width);
	return 0;
}

static bool is_wanted(const struct tracing *tracing, const char *system, const char *event)
{
	size_t len = strlen(system);

	for (size_t i = 0; i < tracing->nr; i++) {
		const char *name = tracing->tracepoints[i];
		if (!strncmp(name, system, len) && name[len] == ':' && (!event || !strcmp(name + len + 1, event)))
			return true;
	}
	return false;
}

/* Puts a count in the place that was left for it at `at`. */
static void set_count(struct buf *out, size_t at, uint32_t nr)
{
	if (!out->failed)
		memcpy(out->data + at, &nr, sizeof(nr));
}

/* Appends how many events of the system are wanted, and their formats. */
static int put_system(struct tracing *tracing, const char *system)
{
	char path[4096];
	struct dirent *entry;
	size_t count_at = tracing->out->len;
	uint32_t nr = 0;

	buf_put_u32(tracing->out, 0);
	snprintf(path, sizeof(path), "%s/events/%s", tracing->root, system);
	AUTO_DIR DIR *dir = opendir(path);
	if (!dir)
		return diag_set(tracing->reterr, -errno, "cannot read %s: %s", path, strerror(errno));
	while ((entry = readdir(dir))) {
		if (!is_wanted(tracing, system, entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/events/%s/%s/format", tracing->root, system, entry->d_name);
		int err = put_file(tracing, path, SIZE_U64);
		if (err)
			return err;
		nr++;
	}
	set_count(tracing->out, count_at, nr);
	tracing->found += nr;
	return 0;
}

/* The formats of ftrace's own entries have a place before the systems, without a name. */
static const char ftrace_system[] = "ftrace";

static int put_ftrace(struct tracing *tracing)
{
	if (is_wanted(tracing, ftrace_system, NULL))
		return put_system(tracing, ftrace_system);
	buf_put_u32(tracing->out, 0);
	return 0;
}

static int put_systems(struct tracing *tracing)
{
	char path[4096];
	struct dirent *entry;
	size_t count_at = tracing->out->len;
	uint32_t nr = 0;

	buf_put_u32(tracing->out, 0);
	snprintf(path, sizeof(path), "%s/events", tracing->root);
	AUTO_DIR DIR *dir = opendir(path);
	if (!dir)
		return diag_set(tracing->reterr, -errno, "cannot read %s: %s", path, strerror(errno));
	while ((entry = readdir(dir))) {
		const char *system = entry->d_name;
		if (!strcmp(system, ftrace_system) || !is_wanted(tracing, system, NULL))
			continue;
		buf_put(tracing->out, system, strlen(system) + 1);
		int err = put_system(tracing, system);
		if (err)
			return err;
		nr++;
	}
	set_count(tracing->out, count_at, nr);
	return 0;
}

static void put_preamble(struct buf *out)
{
	static const uint8_t magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	static const char version[] = "0.6";

	buf_put(out, magic, sizeof(magic));
	buf_put(out, version, sizeof(version));
	buf_put_u8(out, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	buf_put_u8(out, sizeof(long));
	buf_put_u32(out, (uint32_t)sysconf(_SC_PAGESIZE));
}

/* A file of events/ with its name before it. */
static int put_header_file(struct tracing *tracing, const char *name)
{
	char path[64];

	buf_put(tracing->out, name, strlen(name) + 1);
	snprintf(path, sizeof(path), "events/%s", name);
	return put_root_file(tracing, path, SIZE_U64);
}

static int put_all(struct tracing *tracing)
{
	int err;

	put_preamble(tracing->out);
	if ((err = put_header_file(tracing, "header_page")) || (err = put_header_file(tracing, "header_event")))
		return err;
	if ((err = put_ftrace(tracing)) || (err = put_systems(tracing)))
		return err;
	buf_put_u32(tracing->out, 0); /* of kallsyms: readers have it from the MMAP records */
	if ((err = put_optional_file(tracing, "printk_formats", SIZE_U32)))
		return err;
	return put_optional_file(tracing, "saved_cmdlines", SIZE_U64);
}

/* Each name once, so that they can be counted. */
static size_t nr_different(const char *const *names, size_t nr)
{
	size_t different = 0;

	for (size_t i = 0; i < nr; i++) {
		size_t before = 0;
		while (strcmp(names[before], names[i]))
			before++;
		different += before == i;
	}
	return different;
}

int tracing_data_read(const char *root, const char *const *tracepoints, size_t nr, struct buf *out, struct diag *reterr)
{
	struct tracing tracing = {.root = root, .tracepoints = tracepoints, .nr = nr, .out = out, .reterr = reterr};
	int err = put_all(&tracing);

	if (err)
		return err;
	if (out->failed)
		return diag_set(reterr, -ENOMEM, "out of memory while reading %s", root);
	if (tracing.found != nr_different(tracepoints, nr))
		return diag_set(reterr, -ENOENT, "%s/events lacks a tracepoint that is recorded", root);
	return 0;
}
