/* SPDX-License-Identifier: MIT */
/*
 * Any file as a recording that lost its end, or has damage: it is made whole, refused, or left as it is, and what was
 * made whole can be read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "fuzz.h"
#include "perfdata/attr.h"
#include "perfdata/header.h"
#include "perfdata/record.h"
#include "read/session.h"
#include "record/output/recover.h"

static char path[64];

static void remove_file(void)
{
	unlink(path);
}

/* Links are not followed, so that it needs a name. */
static void store(const uint8_t *data, size_t size)
{
	if (!*path) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-recover-%d", getpid());
		atexit(remove_file);
	}
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write(fd, data, size))
		abort();
}

static int recover(bool index, bool leave_out, struct recover_result *ret)
{
	static char *argv[] = {(char *)"millrace", NULL};
	const struct recover_params params = {
		.path = path, .index = index, .leave_out = leave_out, .argc = 1, .argv = argv};
	struct diag diag = {""};
	int err = recover_recording(&params, ret, &diag);

	if (err ? !diag.text[0] : diag.text[0])
		abort();
	return err;
}

static bool is_stored(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf bytes = {0};

	return !fd_slurp(path, size + 1, &bytes) && bytes.len == size && memcmp(bytes.data, data, size) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recover_result result = {0}, again = {0};
	struct session *session = NULL;
	bool is_damaged;

	store(data, size);
	int err = recover(size & 1, false, &result);
	is_damaged = result.damage.nr;
	if (!err && result.is_left) {
		if (!result.damage.nr || !is_stored(data, size))
			abort();
		damage_list_fini(&result.damage);
		err = recover(false, true, &result);
		is_damaged = false;
	}
	if (err || result.was_whole)
		return 0;
	damage_list_fini(&result.damage);
	if (result.data_bytes > size + sizeof(struct perf_event_header) || result.dropped_bytes > size)
		abort();
	if (recover(false, false, &again) || (is_damaged ? !again.is_left : !again.was_whole))
		abort();
	damage_list_fini(&again.damage);
	if (session_open(path, SESSION_FORCE, &session, NULL))
		abort();
	session_close(session);
	return 0;
}

/* From here on: seeds, short recordings without an end, for each recovery asks the machine many things. */

static void put_record(struct buf *out, uint32_t type, const uint64_t words[], size_t nr)
{
	struct perf_event_header header = {.type = type, .size = (uint16_t)(sizeof(header) + nr * sizeof(words[0]))};

	buf_put(out, &header, sizeof(header));
	buf_put(out, words, nr * sizeof(words[0]));
}

static void put_extent(struct buf *out, uint64_t nr)
{
	const struct extent_pack_params how = {.level = 1};
	AUTO_BUF struct buf records = {0};
	struct extent_packer *packer;

	if (extent_packer_new(&packer))
		return;
	for (uint64_t i = 0; i < 30; i++)
		put_record(&records, PERF_RECORD_SAMPLE, (const uint64_t[]){0x401000, 7ull << 32 | 7, 3 + nr, 11}, 4);
	int64_t len = extent_pack(packer, &how, buf_span(&records), buf_room(out, records.len), records.len);
	out->len += len > 0 ? (size_t)len : 0;
	extent_packer_free(packer);
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	char name[] = "cpu-clock";
	uint64_t ids[] = {11};
	const struct event_desc event = {
		.attr = {.size = LAYOUT_ATTR_BYTES,
			 .type = PERF_TYPE_SOFTWARE,
			 .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID,
			 .sample_id_all = 1},
		.name = name,
		.ids = ids,
		.nr_ids = 1,
	};
	struct file_header header;

	if (number > 1)
		return false;
	header_encode(&event, 1, out, &header);
	put_record(out, PERF_RECORD_COMM, (const uint64_t[]){7ull << 32 | 7, 0x6d6d6f63, 7ull << 32 | 7, 1, 11}, 5);
	put_record(out, PERF_RECORD_SAMPLE, (const uint64_t[]){0x401000, 7ull << 32 | 7, 2, 11}, 4);
	for (uint64_t i = 0; number && i < 2; i++)
		put_extent(out, i);
	return true;
}
