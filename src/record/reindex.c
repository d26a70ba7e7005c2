/* SPDX-License-Identifier: MIT */
#include "record/reindex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "format/feature.h"
#include "pack/extent_index.h"
#include "record/hits.h"

enum { FEATURE_BYTES_MAX = 1 << 30 };

static int find_extents(const struct reindex_params *params, struct extent_list *ret)
{
	AUTO_FREE struct hits_region *regions = calloc(params->nr_parts + 1, sizeof(*regions));
	AUTO_BUF struct buf unused = {0};
	struct hits hits = {.build_ids = &unused, .extents = ret};

	if (!regions)
		return -ENOMEM;
	regions[0] = (struct hits_region){
		.fd = params->fd,
		.offset = params->header.data.offset,
		.bytes = params->header.data.size,
	};
	if (params->nr_parts)
		memcpy(regions + 1, params->parts, params->nr_parts * sizeof(*regions));
	return hits_scan(regions, params->nr_parts + 1, params->events, params->nr_events, &hits);
}

static bool has_feature(const struct file_header *header, unsigned bit)
{
	return header->features[bit / 64] >> bit % 64 & 1;
}

/* All that there is, but for the index. */
static int read_features(const struct reindex_params *params, struct feature_set *set)
{
	uint64_t at = params->header.data.offset + params->header.data.size;
	int err = 0;

	for (unsigned bit = 0; bit < FEATURE_BITS && !err; bit++) {
		AUTO_BUF struct buf payload = {0};
		struct file_section section;
		if (!has_feature(&params->header, bit))
			continue;
		err = fd_pread(params->fd, &section, sizeof(section), at);
		at += sizeof(section);
		if (err || bit == FEATURE_EXTENT_INDEX)
			continue;
		if (section.size > FEATURE_BYTES_MAX)
			return -EBADMSG;
		void *into = section.size ? buf_extend(&payload, (size_t)section.size) : NULL;
		if (section.size)
			err = into ? fd_pread(params->fd, into, (size_t)section.size, section.offset) : -ENOMEM;
		err = err ? err : feature_set_add(set, bit, &payload);
	}
	return err;
}

/* In between the header tells of no feature: whoever is killed leaves something that can be recovered. */
static int write_features(const struct reindex_params *params, const struct feature_set *set)
{
	uint64_t at = params->header.data.offset + params->header.data.size;
	struct file_header header = params->header;
	AUTO_BUF struct buf out = {0};

	memset(header.features, 0, sizeof(header.features));
	int err = fd_pwrite(params->fd, &header, sizeof(header), 0);
	if (!err)
		err = feature_set_encode(set, at, &out, header.features);
	if (!err)
		err = fd_pwrite(params->fd, out.data, out.len, at);
	if (!err && ftruncate(params->fd, (off_t)(at + out.len)))
		err = -errno;
	return err ? err : fd_pwrite(params->fd, &header, sizeof(header), 0);
}

int reindex(const struct reindex_params *params, size_t *ret_nr)
{
	AUTO_EXTENTS struct extent_list extents = {0};
	AUTO_BUF struct buf payload = {0};
	struct feature_set set = {0};
	int err = find_extents(params, &extents);

	if (!err)
		err = read_features(params, &set);
	if (!err) {
		extent_index_encode(&extents, UINT64_MAX, &payload);
		err = payload.failed ? -ENOMEM : feature_set_add(&set, FEATURE_EXTENT_INDEX, &payload);
	}
	if (!err)
		err = write_features(params, &set);
	feature_set_fini(&set);
	if (!err)
		*ret_nr = extents.nr;
	return err;
}
