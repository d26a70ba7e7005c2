/* SPDX-License-Identifier: MIT */
#include "cmd/header_bpf.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <string.h>

#include "base/buf.h"
#include "format/btf.h"
#include "format/feature.h"
#include "read/session.h"

/* BPF_MAX_SUBPROGS of the kernel. Only a file that lies has more, and to find names is slow. */
enum { FUNCTIONS_MAX = 256 };

/*
 * Elements of an array of the info: `offset` is where it lies in the program's data. A bad cursor when it
 * does not.
 */
static struct cursor array_over(const struct feature_bpf_prog *prog, uint64_t offset, uint64_t nr,
				size_t element)
{
	struct cursor at = cursor_over(prog->data);

	cursor_take(&at, offset);
	if (nr > cursor_left(&at) / element)
		at.bad = true;
	return at;
}

/* The BTF of this id among the BPF_BTF entries; empty when there is none. */
static struct span find_btf(struct session *session, uint32_t id)
{
	struct feature_list list;
	struct feature_bpf_btf btf;
	struct span payload;

	if (!id || !session_feature(session, FEATURE_BPF_BTF, &payload) || feature_list_open(payload, &list))
		return (struct span){0};
	while (feature_list_bpf_btf(&list, &btf) > 0)
		if (btf.id == id)
			return btf.data;
	return (struct span){0};
}

/* One program: its functions, with what names them. */
struct bpf_functions {
	struct cursor addresses, lengths, tags, infos; /* infos: records of info->func_info_rec_size */
	struct span btf;
};

/*
 * The kernel's symbol of the next function: "bpf_prog_TAG_NAME". NAME: of the BTF, or of the program if it
 * is alone.
 */
static void put_function(struct bpf_functions *functions, const struct bpf_prog_info *info, struct buf *out)
{
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t type = 0;
	const char *name = NULL;
	uint64_t address = cursor_u64(&functions->addresses);
	uint32_t length = cursor_u32(&functions->lengths);

	cursor_copy(&functions->tags, tag, sizeof(tag));
	const uint8_t *record = cursor_take(&functions->infos, info->func_info_rec_size);
	if (record && info->func_info_rec_size >= sizeof(struct bpf_func_info))
		memcpy(&type, record + offsetof(struct bpf_func_info, type_id), sizeof(type));
	if (type)
		name = btf_type_name(functions->btf, type);
	if (!name)
		name = info->nr_prog_tags == 1 && info->name[0] ? info->name : "F";
	buf_put_text(out, "bpf_prog_");
	for (size_t i = 0; i < sizeof(tag); i++)
		buf_printf(out, "%02x", tag[i]);
	buf_printf(out, "_%s addr 0x%" PRIx64 " size %u\n", name, address, length);
}

static int put_prog(struct session *session, const struct feature_bpf_prog *prog, struct buf *out)
{
	struct bpf_prog_info info = {0};

	memcpy(&info, prog->info.ptr, prog->info.len < sizeof(info) ? prog->info.len : sizeof(info));
	info.name[sizeof(info.name) - 1] = '\0';
	uint32_t nr = info.nr_jited_ksyms;
	if (nr != info.nr_prog_tags || nr != info.nr_jited_func_lens)
		return 0; /* written by somebody who could not see everything; perf is silent about it too */

	struct bpf_functions functions = {
		.addresses = array_over(prog, info.jited_ksyms, nr, sizeof(uint64_t)),
		.lengths = array_over(prog, info.jited_func_lens, nr, sizeof(uint32_t)),
		.tags = array_over(prog, info.prog_tags, nr, BPF_TAG_SIZE),
		.infos = array_over(prog, info.func_info, info.nr_func_info, sizeof(struct bpf_func_info)),
	};
	if (nr && (functions.addresses.bad || functions.lengths.bad || functions.tags.bad))
		return -EBADMSG;
	if (info.nr_func_info >= nr && nr <= FUNCTIONS_MAX)
		functions.btf = find_btf(session, info.btf_id);
	buf_printf(out, "# bpf_prog_info %u:%s", info.id, nr == 1 ? " " : "\n");
	for (uint32_t i = 0; i < nr; i++) {
		if (nr > 1)
			buf_printf(out, "# \tsub_prog %u: ", i);
		put_function(&functions, &info, out);
	}
	return 0;
}

int header_print_bpf_progs(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_bpf_prog prog;
	int got = feature_list_open(payload, &list);

	if (got)
		return got;
	while ((got = feature_list_bpf_prog(&list, &prog)) > 0) {
		int err = put_prog(session, &prog, out);
		if (err)
			return err;
	}
	return got;
}

int header_print_bpf_btf(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_bpf_btf btf;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_bpf_btf(&list, &btf)) > 0)
		buf_printf(out, "# btf info of id %u\n", btf.id);
	return got;
}
