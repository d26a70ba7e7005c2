/* SPDX-License-Identifier: MIT */
#include "perfdata/btf.h"

#include <linux/btf.h>

#include "base/span.h"

enum { TEXT_MAX_BYTES = 8192 }; /* a path; each of many lines may have one that has no end */

/* Bytes that follow struct btf_type. */
static uint64_t type_tail_bytes(const struct btf_type *type)
{
	uint64_t nr = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT: return sizeof(uint32_t);
	case BTF_KIND_VAR: return sizeof(struct btf_var);
	case BTF_KIND_DECL_TAG: return sizeof(struct btf_decl_tag);
	case BTF_KIND_ARRAY: return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION: return nr * sizeof(struct btf_member);
	case BTF_KIND_ENUM: return nr * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64: return nr * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO: return nr * sizeof(struct btf_param);
	case BTF_KIND_DATASEC: return nr * sizeof(struct btf_var_secinfo);
	default: return 0;
	}
}

/* A section behind the header. */
static struct cursor section(struct span btf, const struct btf_header *header, uint32_t offset, uint32_t len)
{
	struct cursor at = cursor_over(btf);

	cursor_take(&at, header->hdr_len);
	cursor_take(&at, offset);
	const void *start = cursor_take(&at, len);
	at = cursor_over((struct span){start, start ? len : 0});
	at.bad = !start;
	return at;
}

static bool read_header(struct span btf, struct btf_header *ret)
{
	struct cursor at = cursor_over(btf);

	cursor_copy(&at, ret, sizeof(*ret));
	return !at.bad && ret->magic == BTF_MAGIC;
}

const char *btf_text(struct span btf, uint32_t offset)
{
	struct btf_header header;

	if (!read_header(btf, &header))
		return NULL;
	struct cursor texts = section(btf, &header, header.str_off, header.str_len);
	cursor_take(&texts, offset);
	uint64_t left = cursor_left(&texts);
	return cursor_string(&texts, left < TEXT_MAX_BYTES ? left : TEXT_MAX_BYTES);
}

const char *btf_type_name(struct span btf, uint32_t id)
{
	struct btf_header header;
	struct btf_type type = {0};

	if (!read_header(btf, &header))
		return NULL;
	struct cursor types = section(btf, &header, header.type_off, header.type_len);
	for (uint32_t i = 0; i < id && !types.bad; i++) {
		cursor_copy(&types, &type, sizeof(type));
		cursor_take(&types, type_tail_bytes(&type));
	}
	if (!id || types.bad || !type.name_off)
		return NULL;
	return btf_text(btf, type.name_off);
}
