/* SPDX-License-Identifier: MIT */
#include "cmd/record/record.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"

enum { MAX_BLOCKS_PER_RING = 64 };

static int unknown_writer(const char *name, struct diag *reterr)
{
	AUTO_BUF struct buf names = {0};

	if (!strcmp(name, "uring"))
		return diag_set(reterr, -EINVAL,
				"no writer \"uring\": it was no better than serial; for storage that stalls there are "
				"aio,blocks=N and --buffer-memory");
	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		buf_printf(&names, "%s, ", (*ops)->name);
	return diag_set(reterr, -EINVAL, "no writer \"%s\" in this build; there are %sauto", name, buf_text(&names));
}

void print_writers(FILE *to)
{
	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		fprintf(to, "%s\n", (*ops)->name);
	fprintf(to, "auto\n");
}

static int parse_blocks(const char *text, struct recording_writer *writer, struct diag *reterr)
{
	uint64_t blocks;

	if (writer->ops && !writer->ops->stages)
		return diag_set(reterr, -EINVAL,
				"the writer %s takes no blocks=N: give it memory with --buffer-memory=SIZE",
				writer->ops->name);
	if (option_parse_size(text, &blocks) || !blocks || blocks > MAX_BLOCKS_PER_RING)
		return diag_set(reterr, -EINVAL, "\"%s\" is no number of blocks per ring: 1 to %d", text,
				MAX_BLOCKS_PER_RING);
	writer->blocks_per_ring = (size_t)blocks;
	return 0;
}

static int parse_window(const char *text, struct recording_writer *writer, struct diag *reterr)
{
	uint64_t bytes;

	if (option_parse_size(text, &bytes) || !bytes || bytes > (uint64_t)1 << 40)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size of a window such as 64M", text);
	writer->window_bytes = (size_t)bytes;
	return 0;
}

static int parse_key(char *pair, struct recording_writer *writer, struct diag *reterr)
{
	char *value = strchr(pair, '=');

	if (value)
		*value++ = '\0';
	if (value && !strcmp(pair, "blocks"))
		return parse_blocks(value, writer, reterr);
	if (value && !strcmp(pair, "window"))
		return parse_window(value, writer, reterr);
	return diag_set(reterr, -EINVAL, "\"%s\" is none of blocks=N, window=SIZE", pair);
}

int set_writer(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct recording_writer writer = {0};
	AUTO_FREE char *text = strdup(arg);

	(void)option, (void)negated;
	if (!text)
		return diag_set(reterr, -ENOMEM, "out of memory");
	char *rest = text, *name = strsep(&rest, ",");
	if (strcmp(name, "auto")) {
		writer.ops = writer_find(name);
		if (!writer.ops)
			return unknown_writer(name, reterr);
	}
	while (rest) {
		int err = parse_key(strsep(&rest, ","), &writer, reterr);
		if (err)
			return err;
	}
	*(struct recording_writer *)value = writer;
	return 0;
}

int set_aio(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct recording_writer writer = {.ops = negated ? NULL : writer_find("aio")};

	(void)option;
	if (!negated && !writer.ops)
		return unknown_writer("aio", reterr);
	int err = arg ? parse_blocks(arg, &writer, reterr) : 0;
	if (!err)
		*(struct recording_writer *)value = writer;
	return err;
}

int set_mmap_output(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct recording_writer writer = {.ops = negated ? NULL : &writer_mmap};

	(void)option;
	int err = arg ? parse_window(arg, &writer, reterr) : 0;
	if (!err)
		*(struct recording_writer *)value = writer;
	return err;
}
