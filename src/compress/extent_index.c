/* SPDX-License-Identifier: MIT */
#include "compress/extent_index.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"

void extent_list_fini(struct extent_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->infos[i].counts);
	free(list->infos);
	*list = (struct extent_list){0};
}

int extent_list_add(struct extent_list *list, struct extent_info *info)
{
	if (array_room(list->infos, list->nr, list->room)) {
		free(info->counts);
		info->counts = NULL;
		return -ENOMEM;
	}
	list->infos[list->nr++] = *info;
	info->counts = NULL;
	return 0;
}

int extent_list_join(struct extent_list *list, struct extent_list *from, uint32_t part)
{
	int err = 0;

	for (size_t i = 0; i < from->nr; i++) {
		from->infos[i].fields.part = part;
		int add_err = extent_list_add(list, &from->infos[i]);
		err = err ? err : add_err;
	}
	extent_list_fini(from);
	return err;
}

uint32_t extent_part_of(const char *name)
{
	static const char prefix[] = "data.";
	const char *digits = name + sizeof(prefix) - 1;
	uint64_t number = 0;

	/* One name for each number. */
	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || !*digits || (*digits == '0' && digits[1]))
		return EXTENT_NO_PART;
	for (; *digits >= '0' && *digits <= '9' && number < EXTENT_NO_PART; digits++)
		number = 10 * number + (uint64_t)(*digits - '0');
	return *digits || number + 1 >= EXTENT_NO_PART ? EXTENT_NO_PART : (uint32_t)number + 1;
}

static int by_place(const void *a, const void *b)
{
	const struct extent_fields *left = &((const struct extent_info *)a)->fields;
	const struct extent_fields *right = &((const struct extent_info *)b)->fields;

	if (left->part != right->part)
		return left->part < right->part ? -1 : 1;
	return (left->offset > right->offset) - (left->offset < right->offset);
}

void extent_list_sort(struct extent_list *list)
{
	if (list->nr)
		qsort(list->infos, list->nr, sizeof(*list->infos), by_place);
}

uint64_t extent_list_start(const struct extent_list *list, uint32_t part, uint64_t offset)
{
	for (size_t i = 0; i < list->nr; i++) {
		const struct extent_fields *fields = &list->infos[i].fields;
		if (fields->part == part && fields->offset < offset && offset < fields->offset + fields->packed_bytes)
			return fields->offset;
	}
	return offset;
}

static bool is_within(const struct extent_fields *fields, uint64_t end)
{
	return fields->part || fields->offset + fields->packed_bytes <= end;
}

void extent_index_encode(const struct extent_list *list, uint64_t end, struct buf *out)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < list->nr; i++)
		nr += is_within(&list->infos[i].fields, end);
	buf_put_u32(out, EXTENT_INDEX_VERSION);
	buf_put_u32(out, nr);
	for (size_t i = 0; i < list->nr; i++) {
		const struct extent_info *info = &list->infos[i];
		if (!is_within(&info->fields, end))
			continue;
		buf_put(out, &info->fields, sizeof(info->fields));
		buf_put(out, info->counts, info->fields.nr_counts * sizeof(*info->counts));
	}
}

int extent_reader_open(struct span payload, struct extent_reader *ret)
{
	struct cursor at = cursor_over(payload);
	uint32_t version = cursor_u32(&at), nr = cursor_u32(&at);

	if (at.bad || version != EXTENT_INDEX_VERSION)
		return -EBADMSG;
	*ret = (struct extent_reader){at, nr};
	return 0;
}

int extent_reader_next(struct extent_reader *reader, struct extent_fields *ret, struct span *ret_counts)
{
	struct extent_fields fields;

	if (!reader->left)
		return 0;
	cursor_copy(&reader->at, &fields, sizeof(fields));
	uint64_t counts_bytes = (uint64_t)fields.nr_counts * sizeof(struct extent_count);
	const void *counts = cursor_take(&reader->at, counts_bytes);
	if (reader->at.bad || fields.offset + fields.packed_bytes < fields.offset || fields.first_ns > fields.last_ns)
		return -EBADMSG;
	reader->left--;
	*ret = fields;
	*ret_counts = (struct span){counts, counts_bytes};
	return 1;
}
