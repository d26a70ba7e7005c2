/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/file_builds.h"

#include <errno.h>

/* Of all entries with this file. There are two for an entry, so that none is looked for among others of its inode. */
struct file_build {
	struct file_build_id known; /* its file: with this generation, also if that is 0; any_generation: with each */
	bool any_generation;
	bool several_copies; /* whose contents differ: none is the right one */
};

void file_builds_fini(struct file_builds *builds)
{
	hash_table_fini(&builds->by_file);
	pool_fini(&builds->pool);
	builds->filled = false;
}

static uint64_t file_hash(const struct file_id *file, bool any_generation)
{
	uint64_t hash = hash_mix((uint64_t)file->major << 32 | file->minor, file->inode);

	return any_generation ? hash : hash_mix(hash, file->generation);
}

static struct file_build *find(const struct file_builds *builds, const struct file_id *file, bool any_generation)
{
	struct hash_slot *slot = hash_table_find(&builds->by_file, file_hash(file, any_generation));

	for (; slot; slot = hash_table_next(&builds->by_file, slot)) {
		struct file_build *build = slot->item;
		const struct file_id *its = &build->known.file;
		if (build->any_generation == any_generation && its->major == file->major && its->minor == file->minor &&
		    its->inode == file->inode && (any_generation || its->generation == file->generation))
			return build;
	}
	return NULL;
}

/* Forgets what is not the same in both. */
static void join(struct file_build_id *known, const struct file_build_id *other)
{
	const bool has_id = known->build_id.len && other->build_id.len;

	known->has_code_alone &= other->has_code_alone;
	if (has_id ? elf_id_equal(&known->build_id, &other->build_id)
		   : known->build_id.len == other->build_id.len && file_stamp_equal(&known->stamp, &other->stamp))
		return;
	known->build_id.len = 0;
	known->stamp = (struct file_stamp){0};
}

/* Of the file there is a copy, or two that are the same. */
static void add_copy(struct file_build *build, const struct elf_id *id)
{
	struct elf_id *known = &build->known.copy_id;

	build->several_copies |= known->len && !elf_id_equal(known, id);
	*known = build->several_copies ? (struct elf_id){0} : *id;
}

static int add(struct file_builds *builds, const struct file_build_id *entry, bool any_generation)
{
	struct file_build *build = find(builds, &entry->file, any_generation);

	if (build && entry->copy_id.len)
		add_copy(build, &entry->copy_id);
	else if (build)
		join(&build->known, entry);
	if (build)
		return 0;
	build = pool_take(&builds->pool, sizeof(*build));
	if (!build)
		return -ENOMEM;
	*build = (struct file_build){.known = *entry, .any_generation = any_generation};
	return hash_table_add(&builds->by_file, file_hash(&entry->file, any_generation), build);
}

int file_builds_fill(struct file_builds *builds, struct span payload)
{
	struct cursor at = cursor_over(payload);
	struct file_build_id entry;

	while (file_build_id_next(&at, &entry))
		if (add(builds, &entry, true) || add(builds, &entry, false))
			return -ENOMEM;
	builds->filled = true;
	return 0;
}

bool file_builds_find(const struct file_builds *builds, const struct file_id *file, struct file_build_id *ret)
{
	const struct file_id without_generation = {file->major, file->minor, file->inode, 0};
	const struct file_build *build = find(builds, file, !file->generation);
	/* An entry without a generation is of each. */
	const struct file_build *other = file->generation ? find(builds, &without_generation, false) : NULL;

	if (!build) {
		build = other;
		other = NULL;
	}
	if (!build)
		return false;
	*ret = build->known;
	if (other)
		join(ret, &other->known);
	if (other && !elf_id_equal(&ret->copy_id, &other->known.copy_id))
		ret->copy_id.len = 0;
	return true;
}
